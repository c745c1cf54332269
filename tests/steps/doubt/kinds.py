"""The ways in which a table disappears, each with the way back: generated lakes lose their tables by these."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.steps.doubt.members import Member

ICEBERG, PAIMON = "iceberg", "paimon"
WHERE = "WHERE (catalog_name, table_namespace, table_name) = (?, ?, ?)"


@dataclass
class Attic:
    """Where things are put that vanish. `undo` puts all of them back, the last one first."""

    place: Path
    _back: list[Callable[[], object]] = field(default_factory=list)
    _count: int = 0

    def take_away(self, path: Path) -> Path:
        """Move a file or directory out of sight; its place there."""
        self.place.mkdir(parents=True, exist_ok=True)
        self._count += 1
        kept = self.place / f"{self._count}-{path.name}"
        os.rename(path, kept)

        def put_back() -> None:
            if path.is_dir() and kept.is_dir():
                # What was written there meanwhile is not to go with the empty directory.
                shutil.copytree(path, kept, dirs_exist_ok=True)
            _remove(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.rename(kept, path)

        self._back.append(put_back)
        return kept

    def change(self, path: Path, content: bytes) -> None:
        """Other bytes under the same name."""
        self.take_away(path)
        path.write_bytes(content)

    def and_back(self, there: Callable[[], object], back: Callable[[], object]) -> None:
        """Do something that has its own way back."""
        there()
        self._back.append(back)

    def sql(self, member: Member, statement: str, values: tuple[str | None, ...] = ()) -> None:
        """Change the rows of the table's catalog."""
        with closing(sqlite3.connect(member.store)) as database:
            before = _rows(database)
            with database:
                database.execute(statement, values)
            after = _rows(database)

        def put_back() -> None:
            with closing(sqlite3.connect(member.store)) as database, database:
                _remove_rows(database, after - before)
                marks = "?, ?, ?, ?, ?, ?"
                database.executemany(f"INSERT INTO iceberg_tables VALUES ({marks})", list(before - after))

        self._back.append(put_back)

    def undo(self) -> None:
        while self._back:
            self._back.pop()()


def _rows(database: sqlite3.Connection) -> set[tuple[str | None, ...]]:
    query = (
        "SELECT catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location, iceberg_type"
    )
    return set(database.execute(f"{query} FROM iceberg_tables"))


def _remove_rows(database: sqlite3.Connection, rows: set[tuple[str | None, ...]]) -> None:
    database.executemany(f"DELETE FROM iceberg_tables {WHERE}", [row[:3] for row in rows])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Family(StrEnum):
    """How a table that vanished looks from outside."""

    ABSENT = "absent"
    """Its catalog does not list it."""
    DAMAGED = "damaged"
    """It is listed and cannot be read: where it took files in since it was last read, nobody can tell."""
    NAMELESS = "nameless"
    """It is listed, and nothing tells which table it is: whether it has changed since it was last read, nobody knows."""
    UNMOUNTED = "unmounted"
    """It is listed, and its own directory, which is being cleaned, has no metadata any more: as after a lost mount."""
    SILENT = "silent"
    """Its catalog does not answer: which tables there are, nobody can tell."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to disappear, for tables of one format."""

    name: str
    format: str
    vanish: Callable[[Member, Attic], None]
    empties: bool = False
    """It takes all tables of the catalog along."""
    alone: bool = False
    """What it does to a catalog might concern others, so a group that meets it has a catalog of its own."""
    family: Family = Family.ABSENT
    doubt: bool = True
    """Whether the table cannot be seen afterwards. One that only changed its name can."""
    manifests: bool = False
    """Its metadata is there, its manifests cannot be read: a job that does not ask for them does not notice."""
    spares_tags: bool = False
    """What a tag needs can still be read, and a tag is how released files come back to a Paimon table."""
    unmounts: bool = False
    """The table's own directory looks as if it had never held the table's metadata."""
    for_new_processes: bool = False
    """A process that has the catalog open still sees everything."""
    leaves_a_name: bool = False
    """When it is back, another name is missing under which it was seen: that is a doubt of its own."""
    leaves_a_name_if_changed: bool = False
    """The same, unless the metadata under the other name is one that was read before."""

    def __str__(self) -> str:
        return self.name


KINDS: list[Kind] = []


def kind_of(format: str, **how: Any) -> Callable[[Callable[[Member, Attic], None]], Callable[[Member, Attic], None]]:
    def add(vanish: Callable[[Member, Attic], None]) -> Callable[[Member, Attic], None]:
        KINDS.append(Kind(vanish.__name__.removeprefix("paimon_"), format, vanish, **how))
        return vanish

    return add
