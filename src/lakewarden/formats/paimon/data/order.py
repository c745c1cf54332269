"""What one task is asked to rewrite, and what it answers: values that travel to executors and back as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from lakewarden.formats.paimon.data.vectors import Vector


@dataclass(frozen=True, slots=True)
class Input:
    """A data file to be rewritten: the schema that it was written under, the numbers of its rows, and its deletion vector."""

    name: str
    path: str
    size: int
    rows: int
    schema: int
    min_sequence: int
    max_sequence: int
    first_row_id: int | None = None
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One group: files of one bucket that become fewer, in this order.

    `schemas` are the columns of each schema by its id, as schema files spell them; new files have those of `schema`.
    `directory` is where new files go, by an address that ends in a slash; `tracked` rows keep their ids.
    """

    group: str
    schema: int
    schemas: Mapping[int, Any]
    inputs: tuple[Input, ...]
    directory: str
    target: int
    tracked: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Self:
        found = json.loads(text)
        inputs = tuple(
            Input(**{**one, "vector": None if one["vector"] is None else Vector(**one["vector"])})
            for one in found["inputs"]
        )
        schemas = {int(number): fields for number, fields in found["schemas"].items()}
        return cls(**{**found, "schemas": schemas, "inputs": inputs})


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that a task has written, as its manifest will describe it. Bounds are bytes, in hex."""

    path: str
    size: int
    rows: int
    min_sequence: int
    max_sequence: int
    stats_columns: tuple[str, ...]
    least: str
    greatest: str
    nulls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What became of a group: rows read, rows that vectors took, the new files; or why it was left alone."""

    group: str
    rows_in: int = 0
    rows_deleted: int = 0
    files: tuple[NewFile, ...] = ()
    code: str | None = None
    message: str | None = None

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Self:
        found = json.loads(text)
        files = tuple(
            NewFile(**{**one, "stats_columns": tuple(one["stats_columns"]), "nulls": tuple(one["nulls"])})
            for one in found["files"]
        )
        return cls(**{**found, "files": files})
