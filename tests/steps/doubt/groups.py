"""The ways in which the table that vanishes and the table that is cleaned have to do with each other's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from tests.formats.paimon.story import DATABASE

# Importing these registers the kinds in them.
from tests.steps.doubt import iceberg_kinds, paimon_kinds  # noqa: F401
from tests.steps.doubt.kinds import ICEBERG, KINDS, PAIMON, Family, Kind
from tests.steps.doubt.members import (
    Made,
    Member,
    commit_iceberg,
    commit_paimon,
    make_iceberg,
    make_paimon,
    paimon_home,
    plant,
    staged,
    tag,
    uncommitted,
)
from tests.steps.doubt.needs import needed_by_snapshot


@dataclass(frozen=True, slots=True)
class Relation:
    """Who shares what. Without a cleaned table, the one that vanishes is the one that was to be cleaned."""

    name: str
    victim: str = ICEBERG
    cleaned: str | None = ICEBERG
    shares_data: bool = False
    """Both tables write their data to one directory outside of theirs."""
    nested: bool = False
    """The table that vanishes lies in the directory of the one that is cleaned."""
    other_catalog: bool = False

    def __str__(self) -> str:
        return self.name


RELATIONS = (
    Relation("own", cleaned=None),
    Relation("shared_path", shares_data=True),
    Relation("borrowed"),
    Relation("nested", nested=True),
    Relation("other_catalog", shares_data=True, other_catalog=True),
    Relation("borrowed_by_other_catalog", other_catalog=True),
    Relation("other_format", cleaned=PAIMON, other_catalog=True),
    Relation("own_paimon", PAIMON, cleaned=None),
    Relation("external_path", PAIMON, PAIMON, shares_data=True),
    Relation("external_path_of_other_catalog", PAIMON, PAIMON, shares_data=True, other_catalog=True),
)


@dataclass
class Group:
    """The tables of one relation that meet one kind of disappearance, and what lies in the directory to be cleaned."""

    relation: Relation
    kind: Kind
    victim: Member
    cleaned: Member
    made: Made | None = None
    orphan: Path | None = None
    """Nobody's: it goes, unless its directory is in doubt."""
    late: Path | None = None
    """Nobody's until the victim takes it in."""
    released: Path | None = None
    """Expiry releases it, and the victim takes it in again."""
    comes_back: set[Path] = field(default_factory=set)
    """What else the victim needs then."""
    spare: int = 0
    """How many more orphans and released files there are, so that they fill a batch."""
    _staged: dict[Path, Callable[[], None]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.relation}-{self.kind}"

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(dict.fromkeys((self.cleaned, self.victim)))

    @property
    def hides_the_cleaned(self) -> bool:
        """Whether the table that was to be cleaned vanishes from its catalog too."""
        together = self.victim is self.cleaned or (self.kind.empties and self.victim.store == self.cleaned.store)
        return together and self.kind.family in (Family.ABSENT, Family.SILENT)

    def build(self, catalogs: Mapping[str, SqlCatalog]) -> None:
        """Make the tables. The victim has taken in what the cleaned table is about to release, and a file of nobody."""
        for member in self.members:
            if member.format == ICEBERG:
                catalogs[member.catalog].create_namespace_if_not_exists(member.namespace)
        if self.victim is self.cleaned:
            self.made = self._make(self.victim, catalogs)
        else:
            self.made = self._make(self.cleaned, catalogs)
            borrowed = (self.made.lent, plant(self.made.lent)) if self.victim.format == ICEBERG else ()
            own = self._make(self.victim, catalogs, borrowed)
            # Paimon takes no file of another table in: what comes back is its own.
            self.released = own.kept if self.victim.format == PAIMON else self.made.kept
        self.released = self.released or self.made.kept
        self.orphan, *_ = [plant(self.made.lent) for _ in range(1 + self.spare)]

    def stage(self, catalogs: Mapping[str, SqlCatalog]) -> None:
        """What a slow writer of the victim has ready: it takes in nobody's file, or one that was released."""
        assert self.made is not None
        assert self.released is not None
        if self.victim.format == PAIMON:
            self.late, messages = uncommitted(self.victim)
            first = (self.victim.home / "snapshot" / "snapshot-1").read_bytes()
            self.comes_back = needed_by_snapshot(self.victim, 1)
            self._staged = {
                self.late: partial(commit_paimon, self.victim, messages),
                self.released: partial(tag, self.victim, first),
            }
            return
        self.late = plant(self.made.lent)
        table = catalogs[self.victim.catalog].load_table((self.victim.namespace, self.victim.name))
        for path in (self.late, self.released):
            self._staged[path] = partial(commit_iceberg, self.victim, staged(table, path))

    def take_in(self, path: Path) -> None:
        """The slow writer commits."""
        self._staged[path]()

    def _make(self, member: Member, catalogs: Mapping[str, SqlCatalog], borrowed: tuple[Path, ...] = ()) -> Made:
        if member.format == PAIMON:
            return make_paimon(member)
        return make_iceberg(catalogs[member.catalog], member, borrowed, self.spare)


def groups(base: Path, turn: int | None = None) -> list[Group]:
    """One group for each kind and each relation that it can meet; or each kind with the relation whose turn it is."""
    found = []
    for format in (ICEBERG, PAIMON):
        relations = [relation for relation in RELATIONS if relation.victim == format]
        for number, kind in enumerate(kind for kind in KINDS if kind.format == format):
            met = relations if turn is None else [relations[(number + turn) % len(relations)]]
            found += [_group(base, relation, kind) for relation in met]
    return found


def _group(base: Path, relation: Relation, kind: Kind) -> Group:
    name = f"{relation}__{kind}"
    place = base / "groups" / name
    shared = place / "shared" if relation.shares_data else None
    alone = name if kind.alone else ""
    home = place / "a"
    cleaned = _member(base, relation.cleaned or relation.victim, alone or "lake", name, "a", home, shared)
    if relation.cleaned is None:
        return Group(relation, kind, cleaned, cleaned)
    catalog = (
        f"{alone}_v" if alone and relation.other_catalog else alone or ("other" if relation.other_catalog else "lake")
    )
    victim = _member(
        base, relation.victim, catalog, name, "v", home / "inner" / "v" if relation.nested else place / "v", shared
    )
    return Group(relation, kind, victim, cleaned)


def _member(base: Path, format: str, catalog: str, group: str, name: str, home: Path, shared: Path | None) -> Member:
    if format == ICEBERG:
        store = base / "catalogs" / catalog / "catalog.db"
        return Member(catalog, group, name, format, home, shared or home / "data", store)
    # A warehouse says where its tables lie.
    catalog = f"{catalog}_stream"
    store = base / "warehouses" / catalog
    table = f"{group}_{name}"
    home = paimon_home(store, table)
    return Member(catalog, DATABASE, table, format, home, shared or home, store)


__all__ = ["RELATIONS", "Group", "Relation", "groups"]
