"""Released files by column: what a plan's rows say is what physical deletion reads, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.pending import WAITING
from tests.ledger.samples import ACTOR, NOON
from tests.support.ledger import SteppedClock, due_files

HOUR = timedelta(hours=1)
PLANNED = pa.schema([*(field for field in WAITING if field.name != "released_at"), ("verdict", pa.string())])

ODD = (
    's3://lake/a "quoted", name.parquet',
    "s3://lake/b\\backslash\\N.parquet",
    "s3://lake/c=%3A/größe-文件.parquet",
    "s3://lake/d'single'.parquet",
)


def row(uri: str, table: str = "prod.orders", **values: Any) -> dict[str, Any]:
    usual = {"size": 7, "modified": NOON, "etag": "tag", "kind": "data", "verdict": "pending"}
    return {"uri": uri, "table": table, **usual, **values}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=PLANNED)


def read(ledger: Ledger, due: datetime = NOON + HOUR, page: int = 100) -> list[dict[str, Any]]:
    return [found for table in ledger.pending.iter_tables(due, page) for found in table.to_pylist()]


def test_rows_come_back_as_they_were(ledger: Ledger) -> None:
    exact = NOON.replace(microsecond=7)
    rows = [row(uri, size=2**40, modified=exact) for uri in ODD]
    rows += [row("s3://lake/e", modified=None, etag=None), row("s3://lake/f", etag="", kind="manifest_list")]
    ledger.pending.add_rows("run-1", NOON, [batch(*rows[:3]), batch(), batch(*rows[3:])])
    found = read(ledger)
    assert found == [{**{name: r[name] for name in r if name != "verdict"}, "released_at": NOON} for r in rows]
    assert all(table.schema == WAITING for table in ledger.pending.iter_tables(NOON))


def test_a_file_is_due_from_the_instant_of_its_release(ledger: Ledger) -> None:
    """Instants are text in SQLite: two spellings of one moment would not sort."""
    ledger.pending.add_rows("run-1", NOON, [batch(row("s3://lake/x"))])
    assert due_files(ledger, NOON) == {"prod.orders": 1}
    assert due_files(ledger, NOON - timedelta(microseconds=1)) == {}


def test_a_newer_release_counts(ledger: Ledger) -> None:
    ledger.pending.add_rows("run-1", NOON, [batch(row("s3://lake/x"), row("s3://lake/y"))])
    again = row("s3://lake/x", "prod.clicks", size=8)
    ledger.pending.add_rows("run-2", NOON + HOUR, [batch(again, again)])
    assert [(r["uri"], r["size"], r["released_at"]) for r in read(ledger)] == [
        ("s3://lake/x", 8, NOON + HOUR),
        ("s3://lake/y", 7, NOON),
    ]
    assert ledger.pending.take_back("run-1", "prod.orders", NOON) == 1
    assert ledger.pending.take_back("run-2", "prod.clicks", NOON) == 1


@pytest.mark.parametrize(
    ("other", "ended", "struck"),
    [
        ("snapshot-expiry", None, 0),
        ("snapshot-expiry", NOON + HOUR, 0),
        ("snapshot-expiry", NOON - HOUR, 1),
        ("orphan-cleanup", None, 1),
    ],
)
def test_what_another_run_may_have_let_go_is_not_taken_back(
    ledger: Ledger, clock: SteppedClock, other: str, ended: datetime | None, struck: int
) -> None:
    """Planned at noon: a run of the same job that was open since then may have released the same files."""
    ledger.runs.start("run-0", other, None, ACTOR)
    if ended is not None:
        clock.at = ended
        ledger.runs.finish("run-0", "done", {})
    ledger.runs.start("run-1", "snapshot-expiry", None, ACTOR)
    ledger.pending.add_rows("run-1", NOON, [batch(row("s3://lake/x"))])
    assert ledger.pending.take_back("run-1", "prod.orders", NOON) == struck
    assert ledger.pending.count() == 1 - struck


def test_held_files_wait_longer_and_stay_so(ledger: Ledger) -> None:
    ledger.pending.add_rows("run-1", NOON, [batch(row("s3://lake/x"), row("s3://lake/y", "prod.clicks"))])
    ledger.pending.hold({"prod.orders"}, NOON + 10 * HOUR)
    ledger.pending.renew_run("run-1", NOON + HOUR)
    found = {r["uri"]: r["released_at"] for r in read(ledger, NOON + 10 * HOUR)}
    assert found == {"s3://lake/x": NOON + 10 * HOUR, "s3://lake/y": NOON + HOUR}


def test_pages_and_due(ledger: Ledger) -> None:
    ledger.pending.add_rows("run-1", NOON, [batch(*(row(f"s3://lake/{i:03}") for i in range(25)))])
    ledger.pending.add_rows("run-2", NOON + 2 * HOUR, [batch(row("s3://lake/late"))])
    assert [table.num_rows for table in ledger.pending.iter_tables(NOON, 10)] == [10, 10, 5]
    assert [r["uri"] for r in read(ledger, NOON, 10)] == [f"s3://lake/{i:03}" for i in range(25)]
    assert len(read(ledger, NOON + 2 * HOUR)) == 26


def test_all_or_none(ledger: Ledger) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(row("s3://lake/x"))
        raise RuntimeError("the plan's file is damaged")

    with pytest.raises(RuntimeError):
        ledger.pending.add_rows("run-1", NOON, broken())
    assert ledger.pending.count() == 0
    ledger.pending.add_rows("run-1", NOON, [batch(row("s3://lake/x"))])
    assert ledger.pending.count() == 1


def test_strikes_more_than_one_statement_holds(ledger: Ledger) -> None:
    uris = [*ODD, *(f"s3://lake/{i:05}" for i in range(12_000))]
    ledger.pending.add_rows("run-1", NOON, [batch(*map(row, uris))])
    assert ledger.pending.strike(iter([*uris[:-1], "s3://lake/never"])) == len(uris) - 1
    assert ledger.pending.strike([]) == 0
    assert [r["uri"] for r in read(ledger)] == [uris[-1]]


def test_an_instant_without_a_zone_is_not_entered(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="without a time zone"):
        ledger.pending.add_rows("run-1", NOON.replace(tzinfo=None), [batch(row("s3://lake/x"))])
