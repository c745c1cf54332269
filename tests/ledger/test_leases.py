"""Leases: one holder at a time, epochs that grow, no foreign clock, ambiguity resolved by reading back."""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
import os
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lakewarden.ledger.leases import Lease, Leases
from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import (
    LeaseCorruptError,
    LeaseHeldError,
    LeaseLostError,
    NotFoundError,
    StoreUnavailableError,
)
from lakewarden.model.lease import LeaseRecord, LeaseState, Process, proven_dead
from lakewarden.storage.cas import Ambiguous, Conflict, Register, open_register, registers
from lakewarden.storage.stores import Stores
from tests.support.storage import Place

KEY = "root:s3://bucket/t/"


class Turned:
    """A machine's clocks, turned by hand: its wall clock may be wrong by any amount."""

    def __init__(self, wrong_by: float = 0.0) -> None:
        self.at = 5000.0
        self.wrong_by = wrong_by

    def now(self) -> datetime:
        return datetime.fromtimestamp(1.7e9 + self.at + self.wrong_by, UTC)

    def boot(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def leases(place: Place, holder: str, clock: Any = None, **more: Any) -> Leases:
    return Leases(place.stores, place.uri("leases"), clock or Turned(), holder, **more)


@pytest.fixture
def memory() -> Place:
    return Place(Stores(), f"memory://m{uuid.uuid4().hex}/state/", "memory")


def test_one_holder_then_the_next_with_a_higher_epoch(place: Place) -> None:
    first = leases(place, "one").acquire(KEY, 60)
    assert first.epoch == 1
    with pytest.raises(LeaseHeldError, match="held by one"):
        leases(place, "two").acquire(KEY, 60)
    first.release()
    with pytest.raises(LeaseLostError):
        first.check()
    second = leases(place, "two").acquire(KEY, 60)
    assert second.epoch == 2
    second.check()
    (record,) = leases(place, "x").list()
    assert (record.key, record.holder, record.epoch, record.state) == (KEY, "two", 2, LeaseState.HELD)


def test_a_silent_holder_is_taken_only_after_its_whole_ttl_on_our_clock(memory: Place) -> None:
    leases(memory, "one").acquire(KEY, 60)
    clock = Turned(wrong_by=1e7)  # a wall clock months ahead must not matter
    taker = leases(memory, "two", clock)
    with pytest.raises(LeaseHeldError):
        taker.acquire(KEY, 60)
    clock.at += 65.9  # a tenth more: its clock may go slower than ours
    with pytest.raises(LeaseHeldError):
        taker.acquire(KEY, 60)
    clock.at += 0.2
    assert taker.acquire(KEY, 60).epoch == 2


def test_a_renewed_lease_starts_the_watch_again(memory: Place) -> None:
    held = leases(memory, "one").acquire(KEY, 60)
    clock = Turned()
    taker = leases(memory, "two", clock)
    for _ in range(4):
        with pytest.raises(LeaseHeldError):
            taker.acquire(KEY, 60)
        clock.at += 50
        held.renew()


def test_waiting_is_bounded(memory: Place) -> None:
    leases(memory, "one").acquire(KEY, 60)
    clock = Turned()
    with pytest.raises(LeaseHeldError):
        leases(memory, "two", clock).acquire(KEY, 60, wait=30)
    assert 30 <= clock.at - 5000 < 40
    clock = Turned()
    assert leases(memory, "two", clock).acquire(KEY, 60, wait=90).epoch == 2
    assert 66 <= clock.at - 5000 < 76


@pytest.mark.parametrize("lost", [False, True])
def test_a_lease_whose_release_the_store_did_not_take_is_free_for_its_own_process(memory: Place, lost: bool) -> None:
    """A full disk takes no tombstone. The process knows that its work is over, and others hear of it when it can say so."""
    down = (False, StoreUnavailableError)
    clock = Turned()
    faults: list[tuple[bool, type[Exception]]] = []
    mine = leases(memory, "one", clock, register=faulty(faults))
    held = mine.acquire(KEY, 60)
    if lost:
        clock.at += 50
        with pytest.raises(LeaseLostError):
            held.check()
    else:
        faults.append(down)
    held.release()
    with pytest.raises(LeaseHeldError):
        leases(memory, "two", clock).acquire(KEY, 60)
    faults.append(down)
    assert mine.acquire("another", 60)  # still down when it is tried again
    assert mine.acquire("a third", 60)
    assert leases(memory, "two", clock).acquire(KEY, 60).epoch == 2
    assert not mine._unreleased


class Renewing(Turned):
    """A clock during whose pauses another worker renews its lease, as often as its work goes on."""

    def __init__(self, held: Lease, times: int) -> None:
        super().__init__()
        self.held = held
        self.times = times

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.times and self.at >= 5012:
            self.times -= 1
            self.held.renew()


def test_a_lease_of_a_dead_worker_is_taken_by_the_command_that_finds_it(place: Place) -> None:
    """Of every root that the worker had, in one time to live and not in one after the other."""
    clock = Turned()
    for number in range(3):
        leases(place, "killed", clock).acquire(f"{KEY}{number}", 60)
    told: list[tuple[int, int]] = []
    taker = leases(place, "next", clock, wait=None)
    for number in range(3):
        taken = taker.acquire(f"{KEY}{number}", 60, watched=lambda *given: told.append(given))
        assert (taken.epoch, taken.holder) == (2, "next")
    assert 66 <= clock.at - 5000 < 68
    assert told
    assert all(seconds == 66 for _, seconds in told)


def test_a_worker_that_is_seen_at_work_is_reported_at_once(memory: Place) -> None:
    held = leases(memory, "one").acquire(KEY, 60)
    clock = Renewing(held, times=1)
    with pytest.raises(LeaseHeldError, match=r"held by one .* again while this command watched"):
        leases(memory, "two", clock, wait=None).acquire(KEY, 60)
    assert 12 <= clock.at - 5000 < 15


def test_how_long_a_command_waits_is_its_own_to_say(memory: Place) -> None:
    held = leases(memory, "one").acquire(KEY, 60)
    clock = Renewing(held, times=2)
    assert leases(memory, "two", clock, wait=None).waiting(300).acquire(KEY, 60).epoch == 2
    clock = Turned()
    with pytest.raises(LeaseHeldError):
        leases(memory, "three", clock, wait=None).waiting(0).acquire(KEY, 60)
    assert clock.at == 5000


def test_a_lease_that_would_live_for_days_is_not_waited_for(memory: Place) -> None:
    clock = Turned()
    leases(memory, "one", clock).acquire(KEY, 1e6)
    with pytest.raises(LeaseHeldError):
        leases(memory, "two", clock, wait=None).acquire(KEY, 60)
    assert clock.at == 5000


def test_whoever_waits_for_a_lease_can_be_stopped(memory: Place) -> None:
    leases(memory, "one").acquire(KEY, 60)

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    clock = Turned()
    with pytest.raises(KeyboardInterrupt):
        leases(memory, "two", clock, wait=None).acquire(KEY, 60, watched=stop)
    assert clock.at - 5000 < 5


def test_a_holder_stops_before_anybody_may_take_it(memory: Place) -> None:
    clock = Turned()
    held = leases(memory, "one", clock).acquire(KEY, 60)
    clock.at += 39.9
    held.check()
    clock.at += 0.2
    with pytest.raises(LeaseLostError):
        held.check()
    assert held.lost.is_set()
    with pytest.raises(LeaseLostError):
        held.renew()


def test_a_taken_lease_is_lost_at_the_next_renewal_and_its_release_changes_nothing(memory: Place) -> None:
    held = leases(memory, "one").acquire(KEY, 60)
    assert leases(memory, "admin").force_release(KEY, "stuck", "ann").note == "released by ann: stuck"
    other = leases(memory, "two").acquire(KEY, 60)
    assert other.epoch == 2
    with pytest.raises(LeaseLostError):
        held.renew()
    held.release()
    other.check()
    other.renew()
    with pytest.raises(NotFoundError):
        leases(memory, "admin").force_release("nothing", "r", "ann")


def test_a_dead_process_of_this_worker_is_replaced_at_once(place: Place) -> None:
    context = multiprocessing.get_context("spawn")
    if place.kind == "memory":
        pytest.skip("memory lives in one process")
    worker = context.Process(target=take_and_die, args=(place,))
    worker.start()
    worker.join(60)
    with pytest.raises(LeaseHeldError):
        leases(place, "somebody else").acquire(KEY, 3600)
    assert leases(place, "one").acquire(KEY, 3600).epoch == 2
    with pytest.raises(LeaseHeldError):  # this process lives, so even its own worker id must wait
        leases(place, "one").acquire(KEY, 3600)


def take_and_die(place: Place) -> None:
    leases(place, "one", SystemClock()).acquire(KEY, 3600)
    os._exit(0)


def test_death_is_proven_only_on_the_same_boot_and_pid_space() -> None:
    held = Process("boot", "pid:[1]", 7, 100)
    assert proven_dead(held, Process("boot", "pid:[1]", 9, 1), None)
    assert proven_dead(held, Process("boot", "pid:[1]", 9, 1), 101)
    assert not proven_dead(held, Process("boot", "pid:[1]", 9, 1), 100)
    assert not proven_dead(held, Process("other", "pid:[1]", 9, 1), None)
    assert not proven_dead(held, Process("boot", "pid:[2]", 9, 1), None)
    assert not proven_dead(None, Process("boot", "pid:[2]", 9, 1), None)
    assert not proven_dead(held, None, None)


@pytest.mark.parametrize("junk", [b"", b"{}", b"not json", b'{"epoch": 41, "v": 1'])
def test_a_corrupt_record_fails_closed_and_is_set_aside(place: Place, junk: bytes) -> None:
    held = leases(place, "one").acquire(KEY, 60)
    (uri,) = registers(place.stores, place.uri("leases"))
    register = open_register(place.stores, uri)
    found = register.read()
    assert found is not None
    register.write(junk, found[1])
    with pytest.raises(LeaseLostError):
        held.renew()
    with pytest.raises(LeaseCorruptError, match="a copy is at") as caught:
        leases(place, "two").acquire(KEY, 60)
    aside = str(caught.value).split("a copy is at ")[1].split(",")[0]
    assert place.stores.get(aside) == junk
    leases(place, "admin").force_release(KEY, "corrupt", "ann")
    assert leases(place, "two").acquire(KEY, 60).epoch > 41


class Faulty:
    """A register whose next writes fail in a chosen way, after or before they are applied."""

    def __init__(self, real: Register, faults: list[tuple[bool, type[Exception]]]) -> None:
        self.real = real
        self.faults = faults

    def read(self) -> tuple[bytes, str] | None:
        return self.real.read()

    def write(self, data: bytes, token: str | None) -> str:
        if not self.faults:
            return self.real.write(data, token)
        applied, error = self.faults.pop(0)
        if applied:
            self.real.write(data, token)
        raise error("injected")


def faulty(faults: list[tuple[bool, type[Exception]]]) -> Callable[[Stores, str], Register]:
    return lambda stores, uri: Faulty(open_register(stores, uri), faults)


@pytest.mark.parametrize("error", [Conflict, Ambiguous])
@pytest.mark.parametrize("applied", [True, False])
def test_an_ambiguous_acquire_is_resolved_by_reading_back(place: Place, applied: bool, error: type[Exception]) -> None:
    mine = leases(place, "one", register=faulty([(applied, error)])).acquire(KEY, 60)
    assert mine.epoch == 1
    mine.check()
    mine.renew()
    with pytest.raises(LeaseHeldError, match="held by one"):
        leases(place, "two").acquire(KEY, 60)


@pytest.mark.parametrize("error", [Conflict, Ambiguous])
@pytest.mark.parametrize("applied", [True, False])
def test_an_ambiguous_renewal_is_resolved_by_reading_back(memory: Place, applied: bool, error: type[Exception]) -> None:
    faults: list[tuple[bool, type[Exception]]] = []
    held = leases(memory, "one", register=faulty(faults)).acquire(KEY, 60)
    faults.append((applied, error))
    held.renew()
    held.check()
    held.renew()
    held.release()
    assert leases(memory, "two").acquire(KEY, 60).epoch == 2


def test_sequence_numbers_always_grow(memory: Place) -> None:
    seqs = []
    for holder in ("one", "two", "one"):
        held = leases(memory, holder).acquire(KEY, 60)
        held.renew()
        seqs += [record.seq for record in leases(memory, "x").list()]
        held.release()
    assert seqs == [2, 5, 8]


def test_renewal_in_the_background_keeps_it_and_dies_with_the_work(place: Place) -> None:
    clock = SystemClock()
    with leases(place, "one", clock).acquire(KEY, 3.0) as held:
        time.sleep(3.0)
        held.check()
        assert [t for t in threading.enumerate() if t.name == f"lease {KEY}"]
    assert not [t for t in threading.enumerate() if t.name == f"lease {KEY}"]
    assert leases(place, "two").acquire(KEY, 60).epoch == 2

    with pytest.raises(RuntimeError), leases(place, "one", clock).acquire("other", 3.0):
        raise RuntimeError("the work failed")
    assert not [t for t in threading.enumerate() if t.name.startswith("lease ")]
    leases(place, "two").acquire("other", 60)


def test_the_renewal_of_a_dead_thread_ends(memory: Place) -> None:
    held: list[Lease] = []
    mine = leases(memory, "one", SystemClock())
    thread = threading.Thread(target=lambda: held.append(mine.acquire("k", 0.6).__enter__()))
    thread.start()
    thread.join()
    time.sleep(0.9)
    with pytest.raises(LeaseLostError):
        held[0].check()
    assert not [t for t in threading.enumerate() if t.name == "lease k"]


def test_a_store_that_stays_away_loses_the_lease_in_time(memory: Place) -> None:
    faults: list[tuple[bool, type[Exception]]] = []
    with leases(memory, "one", SystemClock(), register=faulty(faults)).acquire("k", 0.9) as held:
        faults.extend([(False, Ambiguous)] * 1000)
        assert held.lost.wait(0.9)
        with pytest.raises(LeaseLostError):
            held.check()


def race(place: Place, worker: str, rounds: int, results: Any) -> None:
    """Take and give back as often as possible; report each epoch with the moments it was held."""
    mine = leases(place, worker, SystemClock())
    done = 0
    while done < rounds:
        try:
            held = mine.acquire(KEY, 60)
        except LeaseHeldError:
            time.sleep(0.005)
            continue
        start = time.monotonic()
        time.sleep(0.002)
        end = time.monotonic()
        held.release()
        results.put((held.epoch, start, end))
        done += 1


def test_eight_processes_never_hold_it_together(place: Place) -> None:
    if place.kind == "memory":
        pytest.skip("memory lives in one process")
    context = multiprocessing.get_context("spawn")
    results, rounds = context.Queue(), 4
    workers = [context.Process(target=race, args=(place, f"w{i}", rounds, results)) for i in range(8)]
    for worker in workers:
        worker.start()
    found = sorted(results.get(timeout=120) for _ in range(8 * rounds))
    for worker in workers:
        worker.join(60)
    epochs = [epoch for epoch, _start, _end in found]
    assert epochs == list(range(1, 8 * rounds + 1))
    assert all(a[2] <= b[1] for a, b in itertools.pairwise(found))


def test_records_survive_the_round_trip_and_nothing_else_does() -> None:
    now = datetime(2024, 1, 1, tzinfo=UTC)
    record = LeaseRecord("k", "h", 3, 9, "n", LeaseState.HELD, 30.0, now, now, Process("b", "p", 1, 2), "note")
    assert LeaseRecord.loads(record.dumps()) == record
    for broken in (dataclasses.replace(record, epoch=0), dataclasses.replace(record, v=2)):
        with pytest.raises(ValueError, match="lease record"):
            LeaseRecord.loads(broken.dumps())
    with pytest.raises(ValueError, match="lease record"):
        LeaseRecord.loads(b"[]")
