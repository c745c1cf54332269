"""One lake of many groups, built once: every scene begins with a copy of it, in the same place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.model.run import RunStatus
from tests.steps.doubt.groups import Group, Relation
from tests.steps.doubt.kinds import ICEBERG, Kind
from tests.steps.doubt.members import Member
from tests.steps.doubt.needs import needed
from tests.support.deployments import Deployed
from tests.support.lakes import age_everything

ORPHANS, EXPIRY, DELETION = "orphan-cleanup", "snapshot-expiry", "physical-deletion"
PARTITIONS, HANDOFF = "partition-expiry", "tier-handoff"
DELETES_FILES = (ORPHANS, DELETION)

SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "orphan_cleanup": {"grace_period_hours": 24, "max_orphan_share": 1.0, "rate_limit_ms": 0},
    "snapshot_expiry": {"retain_min": 1, "retain_hours": 1},
    "physical_deletion": {"visibility_delay_hours": 1, "rate_limit_ms": 0},
    "partition_expiry": {
        "expiration_hours": 24 * 365,
        "strategy": "values-time",
        "timestamp_formatter": "yyyy-MM-dd",
        "max_drop_share": 1.0,
    },
}


class Stage(StrEnum):
    """How far the lake's night is when a scene begins. A plan of orphans has seen every table in both."""

    SEEN = "seen"
    EXPIRED = "expired"


BATCH = 50
"""How many files go at once where something happens between two batches. The first table has as many."""

CONTROL = Relation("control", cleaned=None)


@dataclass
class DoubtLake:
    """The groups, the deployment that looks after them, and two tables that nothing ever happens to."""

    base: Path
    groups: list[Group]
    controls: list[Group] = field(default_factory=list)
    needed: dict[Stage, dict[Member, set[Path]]] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        """What every scene finds as it was."""
        return self.base / "lake"

    @property
    def everything(self) -> list[Group]:
        return [*self.controls, *self.groups]

    @property
    def members(self) -> list[Member]:
        return list(dict.fromkeys(member for group in self.everything for member in group.members))

    def deployed(self, **sections: Mapping[str, Any]) -> Deployed:
        stores = {member.catalog: member for member in self.members}
        catalogs = {name: _properties(member) for name, member in stores.items()}
        merged = {name: {**values, **sections.get(name, {})} for name, values in SECTIONS.items()}
        merged["tier_handoff"] = {"destination": f"file://{self.place}/cold"}
        formats = {name: member.format for name, member in stores.items()}
        return Deployed(self.place, catalogs, formats=formats, sections=merged)

    def keep(self, stage: Stage) -> None:
        """Remember the lake as it is now."""
        self.needed[stage] = {member: needed([member]) for member in self.members}
        shutil.move(self.place, self.base / stage)

    def restore(self, stage: Stage) -> None:
        """Bring the lake to a stage; the first time, by an expiry of all snapshots."""
        if stage not in self.needed:
            self.restore(Stage.SEEN)
            with self.deployed() as deployed:
                assert deployed.run(EXPIRY).status is RunStatus.DONE
                deployed.plan(ORPHANS)
            self.keep(stage)
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.base / stage, self.place, symlinks=True, copy_function=_link_or_copy)


def build(base: Path, groups: list[Group]) -> DoubtLake:
    """A lake of these groups, whose place is `base/lake`, seen once by a plan of orphans while everything was well."""
    lake = DoubtLake(base, groups)
    # By name the first and the last, so that a run comes to one before and to the other after whatever happens between.
    lake.controls = [_control(lake.place, name) for name in ("00_first", "zz_last")]
    with _catalogs(lake.members) as catalogs:
        for group in lake.everything:
            group.build(catalogs)
        age_everything(lake.place)
        for group in lake.everything:
            group.stage(catalogs)
    with lake.deployed() as deployed:
        deployed.plan(ORPHANS)
    lake.keep(Stage.SEEN)
    return lake


def _link_or_copy(source: str, target: str) -> None:
    """Files that nobody rewrites stay the same files: what was released is known by more than its name."""
    path = Path(source)
    if path.suffix in (".parquet", ".avro") or path.parent.name == "manifest":
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _control(base: Path, name: str) -> Group:
    home = base / "groups" / name / "a"
    member = Member("control", name, "a", ICEBERG, home, home / "data", base / "catalogs" / "control" / "catalog.db")
    unharmed = Kind(name, ICEBERG, lambda member, attic: None, doubt=False)
    return Group(CONTROL, unharmed, member, member, spare=BATCH)


def _properties(member: Member) -> dict[str, str]:
    if member.format == ICEBERG:
        warehouse = f"file://{member.store.parent}/warehouse"
        return {"type": "sql", "uri": f"sqlite:///{member.store}", "warehouse": warehouse}
    return {"warehouse": f"file://{member.store}"}


@contextmanager
def _catalogs(members: Iterable[Member]) -> Iterator[dict[str, SqlCatalog]]:
    """The SQL catalogs of these tables, made."""
    found: dict[str, SqlCatalog] = {}
    for member in members:
        if member.format == ICEBERG and member.catalog not in found:
            member.store.parent.mkdir(parents=True, exist_ok=True)
            found[member.catalog] = SqlCatalog(member.catalog, **_properties(member))
    yield found
    for catalog in found.values():
        catalog.close()
