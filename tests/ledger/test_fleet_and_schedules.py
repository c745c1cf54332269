"""The fleet as last observed, and the schedule."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.fleet import FleetRow
from lakewarden.ledger.remembered import Remembered
from lakewarden.ledger.schedules import Schedule

AT = datetime(2026, 3, 1, tzinfo=UTC)


def row(n: int, **more: object) -> FleetRow:
    health = ("healthy", "attention", "refused")[n % 3]
    values: dict[str, object] = {
        "identifier": f"prod.ns{n % 7}.t{n:05}",
        "catalog": "prod",
        "namespace": f"ns{n % 7}",
        "tenant": f"ns{n % 7}",
        "format": "paimon" if n % 2 else "iceberg",
        "uuid": f"uuid-{n}",
        "health": health,
        "observed_at": AT,
        "code": None if health == "healthy" else f"LW-{n % 3}",
        "codes": [] if health == "healthy" else [f"LW-{n % 3}"],
        "files": n if n % 5 else None,
        "bytes": n * 1000,
        "reclaimable_bytes": n,
    }
    return FleetRow(**(values | more))  # type: ignore[arg-type]


@pytest.fixture
def statements(ledger: Ledger) -> list[str]:
    """What the database is asked for."""
    asked: list[str] = []

    @event.listens_for(ledger._connections.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, text: str, *_more: object) -> None:
        if text.startswith("SELECT"):
            asked.append(text)

    return asked


def test_an_observation_replaces_the_one_before(ledger: Ledger) -> None:
    ledger.fleet.replace([row(0), row(1)], AT)
    later = AT + timedelta(hours=1)
    ledger.fleet.replace([row(1, snapshots=7), row(2)], later)
    found = ledger.fleet.page(sort="identifier")
    assert [one.identifier for one in found.rows] == ["prod.ns1.t00001", "prod.ns2.t00002"]
    assert found.rows[0].snapshots == 7
    assert found.rows[0].observed_at == later
    assert ledger.fleet.get("prod.ns0.t00000") is None
    assert ledger.fleet.get("prod.ns2.t00002") == row(2, observed_at=later)


def test_pages_search_filter_and_sort(ledger: Ledger) -> None:
    ledger.fleet.replace([row(n) for n in range(30)], AT)
    assert ledger.fleet.page(limit=5).total == 30
    assert {one.health for one in ledger.fleet.page(limit=10).rows} == {"refused"}
    assert [one.uuid for one in ledger.fleet.page(search="T0001", sort="bytes", descending=True, limit=2).rows] == [
        "uuid-19",
        "uuid-18",
    ]
    assert ledger.fleet.page(search="%").total == 0
    assert [one.uuid for one in ledger.fleet.page(search="uuid-3").rows] == ["uuid-3"]
    both = ledger.fleet.page(health="refused", format="paimon", tenant="ns5")
    assert {(one.health, one.format, one.tenant) for one in both.rows} == {("refused", "paimon", "ns5")}
    assert [one.files for one in ledger.fleet.page(sort="files", offset=24).rows] == [None] * 6
    assert [one.files for one in ledger.fleet.page(sort="files", descending=True, offset=24).rows] == [None] * 6
    with pytest.raises(ValueError, match="identifier"):
        ledger.fleet.page(sort="detail; DROP TABLE lw_fleet")


def test_the_summary_is_the_sum_of_the_rows(ledger: Ledger) -> None:
    assert ledger.fleet.summary().tables == 0
    rows = [row(n) for n in range(30)]
    ledger.fleet.replace(rows, AT)
    found = ledger.fleet.summary()
    assert (found.tables, found.bytes, found.reclaimable_bytes) == (
        30,
        sum(n * 1000 for n in range(30)),
        sum(range(30)),
    )
    assert found.health == {"refused": 10, "attention": 10, "healthy": 10}
    assert found.formats == {"iceberg": 15, "paimon": 15}
    assert found.codes == {"LW-1": 10, "LW-2": 10}
    assert found.observed_at == AT


def test_ten_thousand_tables_answer_in_milliseconds(ledger: Ledger) -> None:
    ledger.fleet.replace([row(n) for n in range(10_000)], AT)
    ledger.fleet._remembered = Remembered(0)  # the first one who asks waits for it
    began = time.process_time()
    for _ in range(5):
        assert ledger.fleet.page(search="t0999", health="refused", sort="reclaimable_bytes").total > 0
        assert ledger.fleet.page(offset=9_900).total == 10_000
        ledger.fleet.summary()
    assert (time.process_time() - began) / 5 < 0.3


def test_an_answer_is_worked_out_once_until_somebody_looks_again(ledger: Ledger, statements: list[str]) -> None:
    elsewhere = Ledger(ledger._connections)  # as in a process of its own
    elsewhere.fleet.replace([row(0), row(1)], AT)
    first = ledger.fleet.page(sort="identifier"), ledger.fleet.summary(), ledger.fleet.with_refs()
    statements.clear()
    assert (ledger.fleet.page(sort="identifier"), ledger.fleet.summary(), ledger.fleet.with_refs()) == first
    assert all("min(lw_fleet.observed_at)" in text for text in statements), statements
    elsewhere.fleet.replace([row(0), row(1, refs=3), row(2)], AT + timedelta(seconds=1))
    assert ledger.fleet.summary().tables == 3
    assert [one.uuid for one in ledger.fleet.page(sort="identifier").rows] == ["uuid-0", "uuid-1", "uuid-2"]
    assert [one.uuid for one in ledger.fleet.with_refs().rows] == ["uuid-1"]


def test_a_look_that_came_late_is_seen_too(ledger: Ledger) -> None:
    """Two daemons look at the fleet at once, and the one that began first is done last."""
    ledger.fleet.replace([row(0), row(1)], AT + timedelta(seconds=1))
    assert ledger.fleet.page(sort="identifier").rows[0].snapshots == 0
    ledger.fleet.replace([row(0, snapshots=5)], AT)
    assert ledger.fleet.page(sort="identifier").rows[0].snapshots == 5
    ledger.fleet.replace([], AT + timedelta(minutes=1))
    assert ledger.fleet.summary().tables == 0


def test_a_schedule_is_remembered_and_told_of_its_end(ledger: Ledger) -> None:
    due = Schedule("orphan-cleanup", AT, "cron 0 6 * * *", last_due=AT, last_request="q1")
    ledger.schedules.put(due)
    ledger.schedules.put(Schedule("history", None, "not enabled for any table"))
    assert [one.job for one in ledger.schedules.list()] == ["orphan-cleanup", "history"]
    ledger.schedules.ended("orphan-cleanup", "q1", "done", quiet=True)
    ledger.schedules.ended("orphan-cleanup", "q0", "failed", quiet=False)
    found = ledger.schedules.get("orphan-cleanup")
    assert found is not None
    assert (found.last_outcome, found.quiet_runs, found.next_due) == ("done", 1, AT)
    assert ledger.schedules.get("compaction") is None
