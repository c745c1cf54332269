"""What the format's own engine is asked to write for compaction, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.model.errors import LakewardenError
from lakewarden.model.manifests import JavaTable


@dataclass(frozen=True, slots=True)
class EngineFiles:
    """New files as the format's own JSON describes them. `rows` is how many its reader finds in the old ones, less those
    that are deleted; None if it was not asked."""

    files: Sequence[Mapping[str, Any]]
    rows: int | None = None


@dataclass(frozen=True)
class EngineGroup:
    """A group whose new files the format's own engine writes: how, to which size and number, by which columns.

    `counted`: deletes apply, so only the engine's reader can tell how many rows there are to write. `answer` turns what the
    engine wrote, or why it did not, into what a task of ours would answer.
    """

    table: JavaTable
    paths: tuple[str, ...]
    spec: int
    strategy: str
    columns: tuple[str, ...]
    target: int
    outputs: int
    counted: bool
    answer: Callable[[EngineFiles | LakewardenError], str]
