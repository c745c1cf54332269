"""Files to be judged, and where their rows come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewarden.model.ports import Shard
from lakewarden.model.roots import Root


@dataclass(frozen=True, slots=True)
class Candidates:
    """Files to be judged: listed from shards, told by inventories, or LISTED or PLAN_ROWS in files of ours."""

    shards: Sequence[Shard] = ()
    inventories: Sequence[tuple[str, Sequence[Root]]] = ()
    listed: Sequence[str] = ()
    judged: Sequence[str] = ()
