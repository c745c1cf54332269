"""How Paimon tables disappear: their directories are all that a warehouse knows of them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.steps.doubt.kinds import PAIMON, Attic, Family, kind_of
from tests.steps.doubt.members import Member


@kind_of(PAIMON)
def paimon_dropped(member: Member, attic: Attic) -> None:
    """pypaimon's drop removes the directory, and leaves what lies outside."""
    attic.take_away(member.home)


@kind_of(PAIMON, empties=True, alone=True, unmounts=True)
def warehouse_empty(member: Member, attic: Attic) -> None:
    attic.take_away(member.store)
    member.store.mkdir()


@kind_of(PAIMON, empties=True, alone=True, family=Family.SILENT)
def warehouse_gone(member: Member, attic: Attic) -> None:
    attic.take_away(member.store)


@kind_of(PAIMON, family=Family.DAMAGED)
def schemas_lost(member: Member, attic: Attic) -> None:
    attic.take_away(member.home / "schema")


@kind_of(PAIMON, family=Family.DAMAGED)
def schemas_empty(member: Member, attic: Attic) -> None:
    attic.take_away(member.home / "schema")
    (member.home / "schema").mkdir()


@kind_of(PAIMON, family=Family.DAMAGED, unmounts=True, spares_tags=True)
def snapshots_lost(member: Member, attic: Attic) -> None:
    attic.take_away(member.home / "snapshot")


@kind_of(PAIMON, family=Family.DAMAGED, unmounts=True, spares_tags=True)
def snapshots_empty(member: Member, attic: Attic) -> None:
    attic.take_away(member.home / "snapshot")
    (member.home / "snapshot").mkdir()


@kind_of(PAIMON, family=Family.DAMAGED)
def snapshot_cut(member: Member, attic: Attic) -> None:
    path = _latest_snapshot(member)
    attic.change(path, path.read_bytes()[: path.stat().st_size // 2])


@kind_of(PAIMON, family=Family.DAMAGED)
def snapshot_of_0_bytes(member: Member, attic: Attic) -> None:
    attic.change(_latest_snapshot(member), b"")


@kind_of(PAIMON, family=Family.DAMAGED, unmounts=True)
def snapshot_is_a_directory(member: Member, attic: Attic) -> None:
    path = _latest_snapshot(member)
    attic.take_away(path)
    path.mkdir()


@kind_of(PAIMON, family=Family.DAMAGED, manifests=True)
def paimon_list_lost(member: Member, attic: Attic) -> None:
    for path in (member.home / "manifest").glob("manifest-list-*"):
        attic.take_away(path)


@kind_of(PAIMON, leaves_a_name=True)
def paimon_renamed(member: Member, attic: Attic) -> None:
    """A Paimon table in a warehouse has no identity but its directory: for a while, the old one is missed."""
    other = member.home.with_name(f"{member.name}_renamed")
    attic.and_back(lambda: os.rename(member.home, other), lambda: os.rename(other, member.home))


def _latest_snapshot(member: Member) -> Path:
    found = (member.home / "snapshot").glob("snapshot-*")
    return max(found, key=lambda path: int(path.name.removeprefix("snapshot-")))
