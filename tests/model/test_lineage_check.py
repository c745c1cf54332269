"""Which snapshots break the rules of their table, by whom, and how many of them are new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.model.lineage import Requirements
from lakewarden.model.lineage_check import MOST_NAMED, check, writer_of

NOW = datetime(2026, 1, 10, tzinfo=UTC)
RULES = Requirements(required=("writer.id",), by_operation={"overwrite": ("trigger.ticket",)})


@dataclass
class Row:
    snapshot_id: int
    hours_ago: float
    operation: str = "append"
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def committed_ms(self) -> int:
        return int((NOW - timedelta(hours=self.hours_ago)).timestamp() * 1000)


ROWS = [
    Row(1, 50, summary={"writer.id": "good"}),
    Row(2, 40, "overwrite", {"writer.id": "fixer"}),
    Row(3, 30, summary={"engine-name": "spark"}),
    Row(4, 20, summary={"engine-name": "spark"}),
    Row(5, 10, "overwrite", {"writer.id": "fixer", "trigger.ticket": "T-1"}),
]


def test_all_live_snapshots_are_counted_by_writer_and_by_what_they_lack() -> None:
    found = check(ROWS, RULES)
    assert (found.snapshots, found.violations, found.new) == (5, 3, 3)
    assert found.writers == {"engine-name spark": 2, "fixer": 1}
    assert found.lacks == {"writer.id is missing": 2, "trigger.ticket is missing": 1}
    assert [one.snapshot_id for one in found.named] == [4, 3, 2], "the newest first"
    assert found.as_json()["named"][-1]["lacks"] == ["trigger.ticket is missing"]


def test_new_ones_are_those_since_the_last_check_and_older_ones_may_be_left_out() -> None:
    found = check(ROWS, RULES, last=NOW - timedelta(hours=25))
    assert (found.violations, found.new) == (3, 1)
    found = check(ROWS, RULES, since=NOW - timedelta(hours=35))
    assert (found.snapshots, found.violations) == (3, 2)


def test_what_is_named_is_bounded_and_what_is_counted_is_not() -> None:
    found = check((Row(number, 1) for number in range(1000)), RULES)
    assert (found.violations, len(found.named)) == (1000, MOST_NAMED)


@pytest.mark.parametrize(
    ("summary", "writer"),
    [
        ({"writer.id": "a", "commit.user": "u"}, "a"),
        ({"commit.user": "u"}, "commit.user u"),
        ({"writer.id": " "}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_a_writer_is_named_as_far_as_its_commit_says(summary: dict[str, str], writer: str) -> None:
    assert writer_of(summary) == writer
