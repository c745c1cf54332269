"""The doctor's report as a person reads it: worst first, counts before names, two screens for 130 tables."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lakewarden.cli.doctor_text import show_doctor
from lakewarden.cli.screen import Screen
from tests.cli.fake_warden import doctor_report


def told(width: int = 80, **report: Any) -> list[str]:
    stream = io.StringIO()
    show_doctor(Screen(stream, terminal=False), doctor_report(**report), width)
    return stream.getvalue().splitlines()


FULL: dict[str, Any] = {
    "frozen": {"by": "ada", "since": "2026-11-17T22:00:00+00:00", "reason": "a migration is under way"},
    "doubts": [
        {"table": f"prod.a.lost_{i}", "code": "LW-DOUBT-001", "message": "it is gone without a drop", "hint": "Look."}
        for i in range(5)
    ],
    "open_intents": [{"run_id": "run-7", "plan_id": "p", "batch": i, "files": 1000} for i in range(3)],
    "stale_leases": [{"key": "root/somewhere", "holder": "dead-1", "renewed_at": "2026-11-17T21:00:00+00:00"}],
    "pending": {"files": 4211, "bytes": 9 << 30, "tables": 12, "oldest": "2026-11-10T00:00:00+00:00"},
    "newest_plan": {
        "plan_id": "p", "path": "file:///var/lib/lakewarden/plans/20261118T000000Z-orphan-cleanup-0123456789abcdef/",
        "created_at": "2026-11-18T00:00:00+00:00", "used_by": None,
    },
}  # fmt: skip


def test_a_hundred_and_thirty_tables_fit_on_two_screens() -> None:
    lines = told(refused=30, attention=40, healthy=60, **FULL)
    assert len(lines) <= 2 * 24, "\n".join(lines)
    assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []


def test_the_worst_comes_first() -> None:
    lines = told(refused=30, attention=40, healthy=60, **FULL)
    titles = [line.split("  ")[0] for line in lines if line and line.split("  ")[0].isupper()]
    assert titles == ["FROZEN", "REFUSED", "IN DOUBT", "UNFINISHED", "STALE LEASES", "ATTENTION"]
    assert lines[0] == "130 tables in 130 directories: 30 refused, 40 to look at, 60 healthy"


def test_tables_are_counted_by_code_before_any_is_named() -> None:
    lines = told(refused=30)
    [at] = [i for i, line in enumerate(lines) if line.startswith("    4  LW-TABLE-001  such as: manifest m1.avro")]
    assert any("prod.space_0.table_0000" in line for line in lines[at:])
    assert lines.index("REFUSED  30 tables") < at


def test_a_long_list_says_how_many_more_there_are() -> None:
    text = "\n".join(told(attention=40))
    assert "and 38 more" in text
    assert "next: Run lakewarden plan orphans." in text


@pytest.mark.parametrize(
    "word", ["pending", "ATTENTION", "FROZEN", "STALE", "UNFINISHED", "IN DOUBT", "newest orphan plan"]
)
def test_what_is_zero_is_left_out(word: str) -> None:
    assert word not in "\n".join(told(refused=0, healthy=3, never_maintained=[]))
    assert word in "\n".join(told(attention=1, **FULL))


def test_freeze_and_waiting_bytes_are_told() -> None:
    text = "\n".join(told(**FULL))
    assert "FROZEN  by ada since 2026-11-17 22:00 UTC" in text
    assert "4,211 released files, 9.0 GiB, since 2026-11-10 00:00 UTC" in text


def test_a_path_is_never_cut() -> None:
    assert f"{FULL['newest_plan']['path']}" in [line.strip() for line in told(width=60, **FULL)]


def test_a_reason_fits_without_what_was_not_done() -> None:
    message = "lake.finance.invoices has gc.enabled=false; nothing was touched"
    group = {
        "code": "LW-TABLE-004",
        "count": 1,
        "alike": True,
        "tables": ["prod.a.t"],
        "hint": "Ask.",
        "message": message,
    }
    assert "    1  LW-TABLE-004  lake.finance.invoices has gc.enabled=false" in told(refused_by_code=[group])


def test_a_reason_that_begins_with_a_long_path_stands_whole_below_its_code() -> None:
    path = f"file:///lake/{'a' * 90}-m0.avro"
    group = {"code": "LW-TABLE-002", "count": 1, "alike": True, "tables": ["prod.a.t"], "hint": "Restore the file.",
             "message": f"{path} has 2261 bytes where its list says 4523"}  # fmt: skip
    lines = told(refused_by_code=[group])
    at = lines.index("    1  LW-TABLE-002")
    assert lines[at + 1 : at + 3] == [f"       {path}", "       has 2261 bytes where its list says 4523"]


def test_what_is_known_of_orphans_only_says_so() -> None:
    """A plan of another job may be newer, and another job may have worked on the table."""
    lines = told(**FULL)
    assert "newest orphan plan  2026-11-18 00:00 UTC, not applied" in lines
    assert any(line.startswith("never cleaned       ") for line in told(never_maintained=["prod.a.t"]))


def test_an_empty_fleet() -> None:
    assert told(refused=0, healthy=0, reclaimable={"files": 0, "bytes": 0}) == ["0 tables in 0 directories."]
