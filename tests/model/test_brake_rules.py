"""Which sight pulls which brake."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.model.brakes import CODES, DropSight, Sight, braked_since, brakes, drop_brakes, refusal
from lakewarden.model.errors import BRAKE_REFUSALS
from lakewarden.model.partitions import Extent, PartitionFiles
from lakewarden.model.plan import Tally
from lakewarden.model.verdict import Brake


def pulled(**changes: Any) -> set[Brake]:
    sight: dict[str, Any] = {
        "has_snapshot": True, "listed": Tally(100, 1000), "live": Tally(90, 900), "orphans": Tally(10, 100), "max_share": 0.25,
    }  # fmt: skip
    return {brake for brake, _ in brakes(Sight(**(sight | changes)))}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"live": Tally(0, 0), "listed": Tally(0, 0), "orphans": Tally(0, 0)}, {Brake.REACHABLE_EMPTY}),
        ({"live": Tally(0, 0), "orphans": Tally(0, 0)}, {Brake.REACHABLE_EMPTY, Brake.NOTHING_MATCHED}),
        ({"live": Tally(0, 0), "orphans": Tally(0, 0), "has_snapshot": False}, set()),
        ({"live": Tally(0, 0), "orphans": Tally(0, 0), "missing": 3}, {Brake.LIVE_MISSING, Brake.NOTHING_MATCHED}),
        ({"missing": 1}, {Brake.LIVE_MISSING}),
        ({"missing": 1, "from_inventory": True}, set()),
        ({"missing": 91, "from_inventory": True}, {Brake.LIVE_MISSING}),
        ({"orphans": Tally(25, 250)}, set()),
        ({"orphans": Tally(26, 0)}, {Brake.ORPHAN_SHARE}),
        ({"orphans": Tally(1, 251)}, {Brake.ORPHAN_SHARE}),
        ({"orphans": Tally(1, 251), "max_share": 1.0}, set()),
        ({"max_orphans": 9}, {Brake.ORPHAN_CAP}),
        ({"max_orphans": 10}, set()),
        ({"last_live_files": 180}, set()),
        ({"last_live_files": 181}, {Brake.REACHABLE_SHRANK}),
        ({"last_live_files": 10}, set()),
    ],
)
def test_each_sign_pulls_its_brake(changes: dict[str, Any], expected: set[Brake]) -> None:
    assert pulled(**changes) == expected


def test_each_brake_has_the_code_that_the_documentation_knows() -> None:
    assert {code: str(brake) for brake, code in CODES.items()} == BRAKE_REFUSALS


def test_the_refusal_says_how_to_go_on() -> None:
    found = refusal(Brake.ORPHAN_CAP, "11 orphans")
    assert "--override-brake orphan-cap" in found.hint
    assert "nothing of this table is touched" in found.message


def held(count: int, rows: int = 10, size: int = 100, deletes: int = 0) -> Extent:
    """So many partitions of so many rows and bytes each."""
    return Extent.of(PartitionFiles(b"", 1, None, rows=rows, deletes=deletes, bytes=size) for _ in range(count))


def dropped(table: Extent, going: Extent, due: Extent | None = None, max_share: float = 0.5) -> dict[Brake, str]:
    return dict(drop_brakes(DropSight(table, going, due or going, max_share)))


@pytest.mark.parametrize(
    ("table", "going", "expected"),
    [
        (held(4), held(0), set()),
        (held(4), held(2), set()),
        (held(4), held(3), {Brake.DROP_SHARE}),
        # By each measure alone.
        (held(100), Extent(1, 1, 501, 100, 501), {Brake.DROP_SHARE}),
        (held(100), Extent(1, 1, 10, 5001, 10), {Brake.DROP_SHARE}),
        (held(4), held(4), {Brake.TABLE_EMPTIED}),
        # What stays has no row, or none that is not deleted.
        (Extent(4, 4, 30, 400, 30), Extent(3, 3, 30, 300, 30), {Brake.TABLE_EMPTIED}),
        (Extent(4, 4, 40, 400, 10), Extent(1, 1, 10, 100, 10), {Brake.TABLE_EMPTIED}),
        (Extent(), Extent(), set()),
    ],
)
def test_how_much_of_a_table_may_go(table: Extent, going: Extent, expected: set[Brake]) -> None:
    assert set(dropped(table, going)) == expected


def test_a_table_is_never_emptied_by_a_setting() -> None:
    assert set(dropped(held(4), held(3), max_share=1.0)) == set()
    assert set(dropped(held(4), held(4), max_share=1.0)) == {Brake.TABLE_EMPTIED}


def test_what_waits_for_later_plans_counts_as_what_goes() -> None:
    """Or a wrong setting would empty a table by a few partitions a night, below any share."""
    found = dropped(held(100), held(10), due=held(100))
    assert set(found) == {Brake.DROP_SHARE}
    assert "100% of the partitions" in found[Brake.DROP_SHARE]
    assert "10 partitions now and 90 by later plans" in found[Brake.DROP_SHARE]


def test_rows_are_counted_less_what_is_deleted_of_the_same_partition() -> None:
    rows = [PartitionFiles(b"a", 2, None, rows=5, deletes=9), PartitionFiles(b"b", 1, None, rows=7, deletes=3)]
    gone = PartitionFiles(b"c", 0, None, rows=100, bytes=100)
    assert Extent.of([*rows, gone]) == Extent(partitions=2, files=3, rows=12, bytes=0, rows_left=4)


def test_a_brake_that_is_pulled_at_apply_has_its_code_and_a_next_step() -> None:
    error = braked_since("lake.t", Brake.TABLE_EMPTIED, "no row would be left")
    assert error.code == "LW-BRAKE-009"
    assert "no further partition" in error.message
    assert "Plan again" in error.hint
