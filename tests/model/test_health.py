"""How a table is, by what is known of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewarden.model.errors import Refusal
from lakewarden.model.health import (
    MANY_SMALL_FILES,
    MANY_SNAPSHOTS,
    SMALL_FILE_BYTES,
    Status,
    TableFacts,
    health_of,
)
from lakewarden.model.plan import Tally

GOOD = TableFacts("lake.a.t", snapshots=3, planned=True, live=Tally(10, 1000), orphans=Tally(0, 0))


def test_a_table_that_a_plan_has_looked_at_and_found_in_order_is_healthy() -> None:
    assert health_of(GOOD).status is Status.HEALTHY
    assert health_of(GOOD).reasons == ()


def test_a_refusal_stands_above_everything_else() -> None:
    found = health_of(replace(GOOD, refusal=Refusal("LW-TABLE-002", "cut", "restore"), planned=False))
    assert found.status is Status.REFUSED
    assert [(reason.code, reason.hint) for reason in found.reasons] == [("LW-TABLE-002", "restore")]


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (replace(GOOD, planned=False, live=None, orphans=None), "never planned"),
        (replace(GOOD, in_doubt=True), "in doubt"),
        (replace(GOOD, broken_refs=1), "broken ref"),
        (replace(GOOD, no_expiry=Refusal("LW-TABLE-003", "its catalog cannot commit", "use another")), "LW-TABLE-003"),
        (replace(GOOD, orphans=Tally(1, 53)), "orphans"),
        (replace(GOOD, snapshots=MANY_SNAPSHOTS), "many snapshots"),
        (replace(GOOD, data=Tally(200, 9), small=Tally(MANY_SMALL_FILES, 9)), "small files"),
        (replace(GOOD, data=Tally(MANY_SMALL_FILES, MANY_SMALL_FILES * SMALL_FILE_BYTES - 1)), "small files"),
    ],
)
def test_each_reason_to_look_at_a_table(facts: TableFacts, code: str) -> None:
    found = health_of(facts)
    assert found.status is Status.ATTENTION
    assert [reason.code for reason in found.reasons] == [code]
    assert all(reason.message and reason.hint for reason in found.reasons)


@pytest.mark.parametrize(
    "facts",
    [
        replace(GOOD, orphans=Tally(1, 50)),
        replace(GOOD, orphans=None),
        replace(GOOD, snapshots=MANY_SNAPSHOTS - 1),
        replace(GOOD, data=Tally(300, 9), small=Tally(MANY_SMALL_FILES, 9)),
        replace(GOOD, data=Tally(9, 9), small=Tally(9, 9)),
        replace(GOOD, data=Tally(MANY_SMALL_FILES - 1, 9)),
        replace(GOOD, data=Tally(MANY_SMALL_FILES, MANY_SMALL_FILES * SMALL_FILE_BYTES)),
    ],
)
def test_little_of_anything_is_no_reason(facts: TableFacts) -> None:
    assert health_of(facts).status is Status.HEALTHY


def test_the_share_of_orphans() -> None:
    assert replace(GOOD, orphans=Tally(1, 1000)).orphan_share == 0.5
    assert replace(GOOD, live=None).orphan_share is None
    assert replace(GOOD, live=Tally(), orphans=Tally()).orphan_share == 0.0
