"""How Iceberg tables disappear: what a catalog forgets, what a store loses, other names."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from tests.steps.doubt.kinds import ICEBERG, WHERE, Attic, Family, kind_of
from tests.steps.doubt.members import Member, pointer_of
from tests.support.lakes import local_path


def _metadata(member: Member) -> Path:
    pointer = pointer_of(member)
    assert pointer is not None
    return local_path(pointer)


def _first_metadata(member: Member) -> Path:
    """The table as it was made: without a snapshot."""
    log = json.loads(_metadata(member).read_bytes())["metadata-log"]
    return local_path(log[0]["metadata-file"])


# Iceberg: what a catalog forgets.


@kind_of(ICEBERG)
def dropped(member: Member, attic: Attic) -> None:
    attic.sql(member, f"DELETE FROM iceberg_tables {WHERE}", member.row)


@kind_of(ICEBERG, empties=True, alone=True)
def rows_deleted(member: Member, attic: Attic) -> None:
    attic.sql(member, "DELETE FROM iceberg_tables")


@kind_of(ICEBERG, empties=True, alone=True, for_new_processes=True)
def catalog_made_anew(member: Member, attic: Attic) -> None:
    """As PyIceberg does where the file of a catalog is not mounted."""
    attic.take_away(member.store)
    SqlCatalog(member.catalog, uri=f"sqlite:///{member.store}").close()


@kind_of(ICEBERG, empties=True, alone=True, for_new_processes=True, family=Family.SILENT)
def catalog_file_empty(member: Member, attic: Attic) -> None:
    attic.change(member.store, b"")


@kind_of(ICEBERG, alone=True, family=Family.NAMELESS)
def pointer_null(member: Member, attic: Attic) -> None:
    attic.sql(member, f"UPDATE iceberg_tables SET metadata_location = NULL {WHERE}", member.row)


@kind_of(ICEBERG, alone=True, family=Family.NAMELESS)
def pointer_empty(member: Member, attic: Attic) -> None:
    attic.sql(member, f"UPDATE iceberg_tables SET metadata_location = '' {WHERE}", member.row)


@kind_of(ICEBERG)
def pointer_older(member: Member, attic: Attic) -> None:
    _point_at(member, attic, f"file://{_first_metadata(member)}")


def _point_at(member: Member, attic: Attic, address: str) -> None:
    attic.sql(member, f"UPDATE iceberg_tables SET metadata_location = ? {WHERE}", (address, *member.row))


@kind_of(ICEBERG, empties=True, alone=True, family=Family.SILENT)
def catalog_mount_gone(member: Member, attic: Attic) -> None:
    attic.take_away(member.store.parent)


# Iceberg: what a store loses.


@kind_of(ICEBERG, family=Family.DAMAGED, unmounts=True)
def mount_gone(member: Member, attic: Attic) -> None:
    attic.take_away(member.home)


@kind_of(ICEBERG, family=Family.DAMAGED, unmounts=True)
def mount_empty(member: Member, attic: Attic) -> None:
    attic.take_away(member.home)
    member.home.mkdir()


@kind_of(ICEBERG, family=Family.DAMAGED, unmounts=True)
def metadata_lost(member: Member, attic: Attic) -> None:
    attic.take_away(_metadata(member))


@kind_of(ICEBERG, family=Family.DAMAGED)
def metadata_cut(member: Member, attic: Attic) -> None:
    path = _metadata(member)
    attic.change(path, path.read_bytes()[: path.stat().st_size // 2])


@kind_of(ICEBERG, family=Family.DAMAGED)
def metadata_of_0_bytes(member: Member, attic: Attic) -> None:
    attic.change(_metadata(member), b"")


@kind_of(ICEBERG, family=Family.DAMAGED)
def metadata_older(member: Member, attic: Attic) -> None:
    """The same name holds the table as it was when it was made."""
    attic.change(_metadata(member), _first_metadata(member).read_bytes())


@kind_of(ICEBERG, family=Family.DAMAGED, leaves_a_name=True)
def metadata_of_another(member: Member, attic: Attic) -> None:
    """The same name holds a table of another uuid, without a snapshot."""
    document = json.loads(_first_metadata(member).read_bytes())
    document["table-uuid"] = "11111111-2222-3333-4444-555555555555"
    attic.change(_metadata(member), json.dumps(document).encode())


@kind_of(ICEBERG, family=Family.DAMAGED, unmounts=True)
def metadata_is_a_directory(member: Member, attic: Attic) -> None:
    path = _metadata(member)
    attic.take_away(path)
    path.mkdir()


@kind_of(ICEBERG, family=Family.DAMAGED, unmounts=True)
def metadata_behind_a_loop(member: Member, attic: Attic) -> None:
    path = _metadata(member)
    attic.take_away(path)
    path.symlink_to(path.name)


@kind_of(ICEBERG, family=Family.DAMAGED, manifests=True)
def list_lost(member: Member, attic: Attic) -> None:
    for path in _lists(member):
        attic.take_away(path)


@kind_of(ICEBERG, family=Family.DAMAGED, manifests=True)
def list_cut(member: Member, attic: Attic) -> None:
    for path in _lists(member):
        attic.change(path, path.read_bytes()[:-10])


def _lists(member: Member) -> list[Path]:
    document = json.loads(_metadata(member).read_bytes())
    return [local_path(snapshot["manifest-list"]) for snapshot in document["snapshots"]]


# Iceberg: other names.


@kind_of(ICEBERG, doubt=False)
def renamed(member: Member, attic: Attic) -> None:
    other = f"{member.name}_renamed"
    attic.and_back(lambda: _rename(member, member.name, other), lambda: _rename(member, other, member.name))


def _rename(member: Member, name: str, other: str) -> None:
    with closing(sqlite3.connect(member.store)) as database, database:
        row = (other, member.catalog, member.namespace, name)
        database.execute(f"UPDATE iceberg_tables SET table_name = ? {WHERE}", row)


@kind_of(ICEBERG, family=Family.NAMELESS, unmounts=True, leaves_a_name_if_changed=True)
def renamed_and_lost(member: Member, attic: Attic) -> None:
    attic.take_away(_metadata(member))
    renamed(member, attic)


@kind_of(ICEBERG, family=Family.NAMELESS, leaves_a_name_if_changed=True)
def registered_again_and_lost(member: Member, attic: Attic) -> None:
    """Dropped, and registered under another name in another namespace; its metadata is 0 bytes long."""
    metadata = _metadata(member)
    attic.change(metadata, b"")
    dropped(member, attic)
    again = (member.catalog, member.namespace, f"{member.name}_again", f"file://{metadata}")
    attic.sql(member, "INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, NULL, 'TABLE')", again)
