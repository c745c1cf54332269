"""Which sight pulls which brake."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.model.brakes import CODES, Sight, brakes, refusal
from lakewarden.model.errors import BRAKE_REFUSALS
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
