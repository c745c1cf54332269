"""What one task is asked to rewrite, and what it answers: values that travel to executors and back as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, Self

from lakewarden.formats.iceberg.data.places import Spread

POSITION, EQUALITY, VECTOR = "position", "equality", "vector"
# How a group was rewritten: its row groups as they were, or its rows read and encoded anew.
COPIED, ENCODED, BY_ENGINE = "copied", "encoded", "by Iceberg's own writers"


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of deletes that applies to an input; of a deletion vector, the part of the Puffin file that is its own."""

    path: str
    kind: str
    size: int
    rows: int
    equality_ids: tuple[int, ...] = ()
    offset: int | None = None
    length: int | None = None

    @property
    def name(self) -> str:
        """What tells one file of deletes, or one vector, from every other."""
        return self.path if self.offset is None else f"{self.path}#{self.offset}"


@dataclass(frozen=True, slots=True)
class Told:
    """What a manifest says of a data file's columns, by id: bounds as bytes, in hex, and nulls."""

    lower: Mapping[int, str]
    upper: Mapping[int, str]
    nulls: Mapping[int, int]

    @classmethod
    def of(cls, found: Mapping[str, Mapping[str, Any]]) -> Self:
        """As JSON has it."""
        return cls(**{name: {int(n): value for n, value in said.items()} for name, said in found.items()})


@dataclass(frozen=True, slots=True)
class Input:
    """A data file to be rewritten, with the deletes that apply to it and to no other reading of it. `told` is there only
    where its row groups may be copied."""

    path: str
    size: int
    rows: int
    sequence: int
    first_row_id: int | None = None
    deletes: tuple[DeleteFile, ...] = ()
    told: Told | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One group: files of one partition that become fewer.

    `columns` is the table's schema, `dropped` has columns that it no longer has and equality deletes still go by, both as
    metadata spells them. `constants` are the values that the partition has of columns, by id: files may lack these. `names`
    is the mapping by which files without ids are read. `prefix`
    begins the names of the new files, which `spread` spreads over a bucket. `sort` is the order that rows are
    brought into, as metadata spells it. A file is ended at the size of `target`; `sizes` are the least and the greatest
    that the next plan leaves alone.
    """

    group: str
    version: int
    columns: Mapping[str, Any]
    inputs: tuple[Input, ...]
    prefix: str
    target: int
    dropped: tuple[Mapping[str, Any], ...] = ()
    constants: Mapping[int, Any] = field(default_factory=dict)
    names: Sequence[Mapping[str, Any]] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    spread: Spread | None = None
    sort: Mapping[str, Any] | None = None
    sizes: tuple[int, int] = (0, 0)

    def dumps(self) -> str:
        """Each file of deletes is spelled once, and so is each set of them that inputs have: a thousand that apply to ten
        thousand inputs would be gigabytes."""
        sets: dict[tuple[int, ...], tuple[int, Input]] = {}
        of_inputs = [sets.setdefault(tuple(map(id, one.deletes)), (len(sets), one))[0] for one in self.inputs]
        deletes = {id(one): one for _, like in sets.values() for one in like.deletes}
        places = {number: place for place, number in enumerate(deletes)}
        found = _values(self) | {
            "inputs": [{**_values(one), "deletes": some} for one, some in zip(self.inputs, of_inputs, strict=True)],
            "deletes": list(deletes.values()),
            "sets": [[places[number] for number in some] for some in sets],
        }
        return json.dumps(found, default=_values)

    @classmethod
    def loads(cls, text: str) -> Self:
        found = json.loads(text)
        deletes = [DeleteFile(**{**one, "equality_ids": tuple(one["equality_ids"])}) for one in found.pop("deletes")]
        sets = [tuple(deletes[place] for place in some) for some in found.pop("sets")]
        inputs = tuple(
            Input(
                **{
                    **one,
                    "deletes": sets[one["deletes"]],
                    "told": None if one["told"] is None else Told.of(one["told"]),
                }
            )
            for one in found["inputs"]
        )
        told = {
            "dropped": tuple(found["dropped"]),
            "sizes": tuple(found["sizes"]),
            "constants": {int(number): value for number, value in found["constants"].items()},
        }
        spread = Spread(**found["spread"]) if found["spread"] is not None else None
        return cls(**{**found, **told, "inputs": inputs, "spread": spread})


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that a task has written, as its manifest will describe it. Bounds are bytes, in hex."""

    path: str
    size: int
    rows: int
    column_sizes: Mapping[int, int]
    value_counts: Mapping[int, int]
    null_counts: Mapping[int, int]
    nan_counts: Mapping[int, int]
    lower: Mapping[int, str]
    upper: Mapping[int, str]
    split_offsets: tuple[int, ...]
    sort_order_id: int = 0
    format: str = "PARQUET"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What became of a group: rows read, rows that deletes took, the new files; or why it was left alone.

    `way` is how it was rewritten, and `why` what kept its row groups from being copied.
    """

    group: str
    rows_in: int = 0
    rows_deleted: int = 0
    files: tuple[NewFile, ...] = ()
    code: str | None = None
    message: str | None = None
    hint: str | None = None
    way: str = ENCODED
    why: str = ""

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(**{**found, "files": tuple(_new_file(file) for file in found["files"])})


def _values(found: Any) -> dict[str, Any]:
    """A dataclass as JSON has it. Unlike `asdict` it copies nothing: groups have thousands of inputs."""
    return {name: getattr(found, name) for name in _names(found.__class__)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _new_file(found: Mapping[str, Any]) -> NewFile:
    by_column = ("column_sizes", "value_counts", "null_counts", "nan_counts", "lower", "upper")
    numbered = {name: {int(number): value for number, value in found[name].items()} for name in by_column}
    return NewFile(**{**found, **numbered, "split_offsets": tuple(found["split_offsets"])})
