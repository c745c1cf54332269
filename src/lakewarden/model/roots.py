"""Which directories are swept, and which tables touch each of them.

The unit of a sweep is the root, not the table: two tables that share a directory must both be read
before a file in it can be called an orphan. Nested and equal roots become one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakewarden.model.errors import Refusal
from lakewarden.model.table import TableState
from lakewarden.model.uri import FileUri, canonical

BY_NAME = "name:"


@dataclass(frozen=True, slots=True)
class Root:
    """One directory to list whole: its canonical prefix and every table that touches it."""

    id: int
    prefix: str
    tables: tuple[str, ...]
    refusal: Refusal | None = None

    @property
    def store(self) -> str:
        return FileUri.parse(self.prefix).store


@dataclass(frozen=True, slots=True)
class Claim:
    """A directory that one table writes to; a file belongs to the deepest claim above it."""

    prefix: str
    identifier: str


def claims_of(states: Iterable[TableState]) -> list[Claim]:
    """Every directory that every table writes to, deepest first, then by name."""
    found = {(FileUri.parse(root).as_prefix(), state.identifier) for state in states for root in state.roots}
    return [Claim(prefix, name) for prefix, name in sorted(found, key=lambda c: (-c[0].count("/"), c))]


def named_outside(state: TableState) -> Iterator[str]:
    """The files, by canonical address, that a table's metadata names outside the directories it writes to."""
    own = tuple({name for root in state.roots for name in (f"{root.rstrip('/')}/", FileUri.parse(root).as_prefix())})
    for file in state.files:
        if not file.uri.startswith(own) and not (key := canonical(file.uri)).startswith(own):
            yield key


def group_roots(claims: Sequence[Claim]) -> list[Root]:
    """The outermost directories, disjoint, each with all tables at or below it."""
    outermost: list[tuple[str, list[str]]] = []
    for claim in sorted(claims, key=lambda c: (c.prefix, c.identifier)):
        if outermost and claim.prefix.startswith(outermost[-1][0]):
            outermost[-1][1].append(claim.identifier)
        else:
            outermost.append((claim.prefix, [claim.identifier]))
    return [Root(i, prefix, tuple(dict.fromkeys(names))) for i, (prefix, names) in enumerate(outermost)]


def homes_of(roots: Sequence[Root], by_name: Collection[str]) -> dict[str, str]:
    """For each table whose files are known by name: what its names are prefixed with to be compared.

    Tables that share a directory share a home, because a bare name does not say which of them it belongs to.
    """
    homes: dict[str, str] = {}
    for root in sorted(roots, key=lambda root: root.prefix):
        tables = [name for name in root.tables if name in by_name]
        merged = {homes[name] for name in tables if name in homes}
        home = min(merged, default=BY_NAME + root.prefix)
        homes |= {name: home for name, old in homes.items() if old in merged}
        homes |= dict.fromkeys(tables, home)
    return homes


def match_key(uri: str, home: str | None) -> str:
    """What a file is compared by: its canonical address, or its bare name where the format knows no other."""
    return uri if home is None else home + uri.rpartition("/")[2]


def home_of(root: Root, homes: Mapping[str, str]) -> str | None:
    """The home of the tables that touch a root; None where files are known by their address."""
    return next((homes[name] for name in root.tables if name in homes), None)
