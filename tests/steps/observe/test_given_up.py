"""Which tables may be abandoned, what that leaves unprotected, and that it can be taken back."""

from __future__ import annotations

import shutil

import pytest

from lakewarden.model.errors import NotFoundError, TableListedError
from tests.support.lakes import local_path
from tests.support.worlds import World


def copy_metadata(world: World, uuid: str, *places: str) -> None:
    """Metadata of another table in the root of `sales.orders`."""
    table = world.table("sales.orders")
    for place in places:
        target = local_path(table.location()) / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(local_path(table.metadata_location), target)
        target.write_text(target.read_text().replace(str(table.metadata.table_uuid), uuid))


def test_a_table_that_a_catalog_lists_is_never_abandoned(world: World) -> None:
    uuid = str(world.table("web.clicks").metadata.table_uuid)
    with pytest.raises(TableListedError, match=r"is lake\.web\.clicks, which its catalog lists") as found:
        world.warden.abandon(uuid, "a slip")
    assert (found.value.code, found.value.exit_code) == ("LW-CATALOG-005", 4)
    assert world.warden._deployment.ledger.switches.abandoned() == {}


def test_a_word_that_names_no_table_is_not_taken(world: World) -> None:
    with pytest.raises(NotFoundError, match="no root holds metadata of a table nonsense"):
        world.warden.abandon("nonsense", "a slip")
    with pytest.raises(NotFoundError, match="no table nonsense is abandoned"):
        world.warden.take_back("nonsense", "a slip")


def test_what_loses_protection_is_counted_and_it_can_be_taken_back(world: World) -> None:
    copy_metadata(world, "f-1", "metadata/7.metadata.json", "data/deep/metadata/8.metadata.json")
    copy_metadata(world, "f-2", "metadata/9.metadata.json")
    root = f"{world.table('sales.orders').location()}/"
    seen = world.warden.would_abandon("f-1")
    assert (seen.metadata, seen.names, seen.places, seen.unlisted) == ({root: 2}, (), (), ())
    switches = world.warden._deployment.ledger.switches
    assert switches.abandoned() == {}, "asking changes nothing"
    assert world.warden.abandon("f-1", "dropped in March").metadata_files == 2
    assert switches.abandoned().keys() == {"f-1"}
    world.warden.take_back("f-1", "it is needed after all")
    assert switches.abandoned() == {}
    world.warden.abandon("f-1", "no, it is not")
    assert switches.abandoned().keys() == {"f-1"}
