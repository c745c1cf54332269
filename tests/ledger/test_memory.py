"""The smaller things the ledger remembers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, timedelta, timezone

import pytest

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.progress import CleanupProgress
from lakewarden.model.errors import StateError
from lakewarden.model.kept_file import KeptFile
from lakewarden.model.known_table import KnownTable
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat
from lakewarden.model.table import TableState
from tests.ledger.samples import ACTOR, NOON, files, outcomes, started
from tests.support.ledger import PendingFile, release

HOUR = timedelta(hours=1)


def reach(ledger: Ledger, batch: int, reached: CleanupProgress) -> None:
    """A batch is over, and with it the run has come so far."""
    some = files(1, batch)
    ledger.journal.intent("run-1", batch, some)
    ledger.journal.outcomes("run-1", batch, outcomes(some), reached)


def test_progress_is_overwritten(ledger: Ledger) -> None:
    started(ledger)
    assert ledger.progress.get("run-1") is None
    first = CleanupProgress("run-1", NOON, "prod.orders", 5000, 1000, 990, 10, NOON + HOUR)
    reach(ledger, 0, first)
    second = replace(first, processed=2000, deleted=1985, failed=15, last_checkpoint_at=NOON + 2 * HOUR)
    reach(ledger, 1, second)
    assert ledger.progress.get("run-1") == second


def test_instants_come_back_in_utc_to_the_microsecond(ledger: Ledger) -> None:
    started(ledger)
    east = (NOON + timedelta(microseconds=7)).astimezone(timezone(timedelta(hours=5, minutes=30)))
    reach(ledger, 0, CleanupProgress("run-1", east, "t", 1, 0, 0, 0, NOON))
    found = ledger.progress.get("run-1")
    assert found is not None
    assert found.started_at.isoformat() == "2026-03-01T12:00:00.000007+00:00"
    assert found.last_checkpoint_at.tzinfo is UTC


def test_an_instant_without_a_zone_is_not_stored(ledger: Ledger) -> None:
    started(ledger)
    with pytest.raises(StateError, match="without a time zone"):
        reach(ledger, 0, CleanupProgress("run-1", NOON.replace(tzinfo=None), "t", 1, 0, 0, 0, NOON))


def test_pending_files_are_entered_counted_walked_and_struck_out(ledger: Ledger) -> None:
    waiting = [PendingFile("run-1", "prod.orders", f"s3://lake/{i:04}.parquet", i, NOON) for i in range(2500)]
    release(ledger, waiting)
    release(ledger, [waiting[0], waiting[0], replace(waiting[1], released_at=NOON + HOUR)])
    assert ledger.pending.count() == 2500
    pages = list(ledger.pending.iter_uris(1000))
    assert [len(page) for page in pages] == [1000, 1000, 500]
    assert {uri for page in pages for uri in page} == {file.uri for file in waiting}
    assert ledger.pending.strike([*(file.uri for file in waiting[:2000]), "s3://lake/other"]) == 2000
    assert ledger.pending.count() == 500
    assert list(ledger.pending.iter_uris(1000)) == [[file.uri for file in waiting[2000:]]]


def test_a_heartbeat_is_live_until_its_time_is_over(ledger: Ledger) -> None:
    beat = Heartbeat("flink-1", "prod.orders", "s3://lake/orders/", NOON - HOUR, NOON, 60)
    other = replace(beat, prefix="s3://lake/elsewhere/")
    for each in (beat, other, replace(beat, writer="flink-2", ttl_seconds=10)):
        ledger.heartbeats.beat(each)
    minute = timedelta(seconds=60)
    assert ledger.heartbeats.live(NOON + minute) == [other, beat]
    assert ledger.heartbeats.live(NOON + minute + timedelta(microseconds=1)) == []
    silent = [replace(each, silent=True) for each in (other, beat, replace(beat, writer="flink-2", ttl_seconds=10))]
    assert ledger.heartbeats.protecting(NOON + minute) == [other, beat, silent[2]]
    last = NOON + minute + MARGINS.heartbeat_grace
    assert ledger.heartbeats.protecting(last) == silent[:2], "the last instant still counts"
    assert ledger.heartbeats.protecting(last + timedelta(microseconds=1)) == []
    again = replace(beat, beat_at=NOON + minute)
    ledger.heartbeats.beat(again)
    assert ledger.heartbeats.live(NOON + 2 * minute) == [again]
    ledger.heartbeats.end(beat)
    assert len(ledger.heartbeats.live(NOON)) == 3, "another that goes by its name has beaten since"
    for each in (again, other):
        ledger.heartbeats.end(each)
    assert [live.writer for live in ledger.heartbeats.live(NOON)] == ["flink-2"]
    assert ledger.heartbeats.protecting(NOON)[0].writer == "flink-2", "what was ended protects nothing any more"
    later = replace(again, beat_at=NOON + timedelta(days=31))
    ledger.heartbeats.beat(later)
    assert {beat.writer for beat in ledger.heartbeats.every()} == {"flink-1", "flink-2"}, "its clock may be wrong"
    ledger.heartbeats.beat(replace(later, writer="flink-3"))
    assert [beat.writer for beat in ledger.heartbeats.every()] == ["flink-1", "flink-3"], "long dead ones are forgotten"


def test_a_heartbeat_that_somebody_ended_protects_for_the_grace(ledger: Ledger) -> None:
    beat = Heartbeat("flink", "prod.orders", "s3://lake/orders/", NOON - HOUR, NOON, 24 * 3600)
    ledger.heartbeats.beat(beat)
    ledger.heartbeats.cut_short(beat, "ada", NOON + HOUR)
    assert ledger.heartbeats.live(NOON + HOUR) == ledger.heartbeats.every() == []
    last = NOON + HOUR + MARGINS.heartbeat_grace
    [found] = ledger.heartbeats.records(last)
    assert (found.ended_by, found.ended_at, found.beat.silent) == ("ada", NOON + HOUR, True)
    assert ledger.heartbeats.protecting(NOON + HOUR)[0].since == beat.since
    assert ledger.heartbeats.protecting(last + timedelta(seconds=1)) == []
    ledger.heartbeats.beat(replace(beat, beat_at=NOON + 2 * HOUR))
    [again] = ledger.heartbeats.records(NOON + 2 * HOUR)
    assert (again.ended_by, again.beat.silent) == (None, False), "the writer lives"


def test_of_two_writers_of_one_name_the_earlier_beginning_counts(ledger: Ledger) -> None:
    first = Heartbeat("host-1", "prod.orders", "s3://lake/orders/", NOON - HOUR, NOON, 60)
    assert ledger.heartbeats.beat(first) is None
    assert ledger.heartbeats.beat(replace(first, since=NOON, beat_at=NOON + HOUR)) == NOON, "the first one's"
    assert ledger.heartbeats.protecting(NOON)[0].since == NOON - HOUR
    later = NOON + 2 * MARGINS.heartbeat_grace
    assert ledger.heartbeats.beat(replace(first, since=later, beat_at=later)) is None
    assert ledger.heartbeats.protecting(later)[0].since == later, "what was silent for so long protects nothing"


def test_heartbeats_of_many_tables_are_written_at_once(ledger: Ledger) -> None:
    """Each as if it were alone: with its own last beat, as far as that still protects, and its own earlier beginning."""
    grace = MARGINS.heartbeat_grace
    known = Heartbeat("host-1", "prod.known", "s3://lake/known/", NOON - HOUR, NOON, 60)
    silent = replace(known, table="prod.silent", prefix="s3://lake/silent/", beat_at=NOON - grace)
    other = replace(known, writer="host-2")
    for each in (known, silent, other):
        ledger.heartbeats.beat(each)
    now = NOON + HOUR
    again = [replace(each, since=now, beat_at=now) for each in (known, silent, replace(known, table="prod.new"))]
    assert ledger.heartbeats.beat_all(again) == [NOON, None, None]
    assert [beat.since for beat in ledger.heartbeats.live(now)] == [NOON - HOUR, now, now]
    late = [replace(again[0], beat_at=now + HOUR), again[1]]
    assert ledger.heartbeats.beat_all(late) == [now, now], "two clocks may be told of at once"
    ledger.heartbeats.end_all([*again, other])
    assert ledger.heartbeats.every() == [replace(late[0], since=NOON - HOUR)], "it has beaten since"
    assert ledger.heartbeats.beat_all([]) == []


def test_freezing_and_unfreezing(ledger: Ledger) -> None:
    assert ledger.switches.frozen() is None
    ledger.switches.freeze(ACTOR, "migration of the catalog")
    ledger.switches.abandon("u-1", ACTOR, "dropped by hand")
    frozen = ledger.switches.frozen()
    assert frozen is not None
    who, when, reason = frozen
    assert (who, reason, when.tzinfo) == ("ada", "migration of the catalog", UTC)
    ledger.switches.unfreeze(ACTOR)
    assert ledger.switches.frozen() is None


def test_abandoned_tables(ledger: Ledger) -> None:
    assert ledger.switches.abandoned() == {}
    for uuid in ("u-1", "u-2", "u-1"):
        ledger.switches.abandon(uuid, ACTOR, "gone")
    assert ledger.switches.abandoned().keys() == {"u-1", "u-2"}


def test_a_deployment_has_one_name(ledger: Ledger) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(lambda _: ledger.switches.deployment_id(), range(16)))
    assert names == {ledger.switches.deployment_id()}


def test_known_tables_are_what_was_seen_last_by_uuid_and_by_name(ledger: Ledger) -> None:
    assert ledger.known_tables.memory().rows == ()
    orders = KnownTable(
        "prod.orders", "u-1", 100, 10**13, ("s3://lake/a/", "s3://lake/b/"), NOON, roots=("s3://lake/o/",)
    )
    users = KnownTable("prod.users", "u-2", 5, 50, (), NOON, absent_since=NOON)
    ledger.known_tables.record([orders, users])
    newer = orders._replace(live_files=90, at=NOON + HOUR)
    ledger.known_tables.record([newer])
    assert set(ledger.known_tables.memory().rows) == {newer, users}
    made_again = KnownTable("prod.orders", "u-9", 1, 1, (), NOON + 2 * HOUR)
    ledger.known_tables.record([made_again])
    memory = ledger.known_tables.memory()
    assert memory.named("prod.orders") == made_again
    assert memory.of(state("prod.moved", "u-1")) == newer, "a table is found by its uuid under any name"
    assert memory.of(state("prod.orders", "u-9")) == made_again
    assert memory.of(state("prod.users", "u-3")) is None, "another table of that name is not the one that was seen"
    ledger.known_tables.record([], gone=[newer])
    assert set(ledger.known_tables.memory().rows) == {made_again, users}


def test_two_workers_that_remember_a_table_at_once_lose_no_place(ledger: Ledger) -> None:
    """The slower one writes last, and has not seen what the other saw."""
    first = KnownTable("prod.orders", "u-1", 10, 0, (), NOON, "v1", ("s3://lake/o/",), "v1", 1)
    ledger.known_tables.record([first])
    quick = first._replace(outside_roots=("s3://lake/b/",), metadata_location="v2", seen_location="v2", seen_ms=2)
    ledger.known_tables.record([quick])
    ledger.known_tables.record([first._replace(live_files=12)])
    assert ledger.known_tables.memory().rows == (quick._replace(live_files=12),)


def test_what_our_own_runs_let_go_is_expected_to_be_missing(ledger: Ledger) -> None:
    ledger.known_tables.record([KnownTable("prod.orders", "u-1", 100, 0, (), NOON)])
    ledger.known_tables.released("prod.orders", "u-1", 60)
    ledger.known_tables.released("prod.orders", "u-other", 60)
    assert [row.live_files for row in ledger.known_tables.memory().rows] == [40]
    ledger.known_tables.released("prod.orders", "u-1", 60)
    assert [row.live_files for row in ledger.known_tables.memory().rows] == [0]


def state(identifier: str, uuid: str) -> TableState:
    return TableState(identifier, "iceberg", uuid, "", "", ())


def test_cache_files_are_known_in_the_order_of_their_use_until_they_are_struck_out(ledger: Ledger) -> None:
    sizes = {"a": 100, "b": 9, "c": 8}
    first, second, third = (KeptFile("entries", name, name * 64, 10, size) for name, size in sizes.items())
    ledger.cache.add([first])
    ledger.cache.add([second, third])
    assert ledger.cache.files() == [second, third, first]
    ledger.cache.use(["a", "never entered"])
    assert ledger.cache.files() == [first, second, third]
    ledger.cache.use(["b", "c"])
    ledger.cache.forget(["b", "never entered"])
    assert ledger.cache.files() == [third, first]
