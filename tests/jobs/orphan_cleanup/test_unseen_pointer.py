"""A table that its catalog names without a pointer: nothing of it goes, and the fleet is not stopped."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.support.worlds import World

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("previous", [True, False])
def test_it_is_refused_and_its_neighbours_are_braked(world: World, previous: bool) -> None:
    first = world.plan()
    assert not [table for table in first.plan.tables if table.refusal]
    before = set(world.planted("web.clicks"))
    with closing(sqlite3.connect(world.base / "lake" / "catalog.db")) as database, database:
        last = "previous_metadata_location" if previous else "NULL"
        database.execute(
            "UPDATE iceberg_tables SET metadata_location = NULL, previous_metadata_location = "
            f"{last} WHERE table_name = 'clicks'"
        )
    plan = world.plan()
    refused = {table.identifier: table.refusal.code for table in plan.plan.tables if table.refusal}
    # It changed since it was read, and may by now need a file of any directory: that is a brake, which can be lifted.
    assert refused == {"lake.web.clicks": "LW-CATALOG-003", "lake.sales.orders": "LW-BRAKE-007"}
    result = world.apply(plan, override_brakes=["damaged-table"])
    assert (result.status, result.deleted.files) == ("done", 6)
    assert all(path.exists() for path in before)
    assert not any(path.exists() for path in world.planted("sales.orders"))
