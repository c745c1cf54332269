"""Leases of groups of files: payload and status, taken side by side, cleared away, and a floor for others while they live."""

from __future__ import annotations

import dataclasses
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.ledger.group_leases import AtWork, GroupLeases, group_key
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.leases import Leases
from lakewarden.model.errors import GroupLeasedError, LeaseLostError, StoreUnavailableError
from lakewarden.model.lease import LeaseStatus, Work
from lakewarden.storage.cas import Ambiguous, Conflict, open_register
from lakewarden.storage.stores import Stores
from tests.ledger.test_leases import Faulty, Turned
from tests.support.storage import Place

TABLE = "11111111-2222-3333-4444-555555555555"
KEYS = [group_key(TABLE, f"{n:016x}") for n in range(3)]
WORK = Work("lake.shop.orders", TABLE, "day=2026-01-01", "0", 1, 12, 4096, "d1", 77)


class Now(Turned):
    """Turned by hand, from now: the store's own time is real."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.real + self.at - 5000 + self.wrong_by, UTC)

    def __init__(self, wrong_by: float = 0.0) -> None:
        super().__init__(wrong_by)
        self.real = datetime.now(UTC).timestamp()


def worker(place: Place, name: str, clock: Now | None = None) -> tuple[Leases, GroupLeases]:
    clock = clock or Now()
    leases = Leases(place.stores, place.uri("leases"), clock, name, wait=None)
    return leases, GroupLeases(leases, clock)


@pytest.fixture
def memory() -> Place:
    return Place(Stores(), f"memory://g{uuid.uuid4().hex}/state/", "memory")


def taken(groups: GroupLeases, *keys: str) -> list[Lease]:
    found = groups.take(dict.fromkeys(keys, WORK), 300)
    assert all(isinstance(one, Lease) for one in found.values())
    return [one for one in found.values() if isinstance(one, Lease)]


def test_a_lease_tells_what_it_is_for_and_what_became_of_it(place: Place) -> None:
    leases, groups = worker(place, "one")
    held = taken(groups, *KEYS)
    assert [record.work for record in leases.list()] == [WORK] * 3
    assert {record.status for record in leases.list()} == {LeaseStatus.ACTIVE}
    held[0].tell(dataclasses.replace(WORK, progress="rewriting"))
    held[0].renew()
    told = leases.look(KEYS[0])
    assert told is not None
    assert told.work is not None
    assert (told.work.progress, told.epoch) == ("rewriting", 1)
    groups.end([(held[0], LeaseStatus.COMPLETED, ""), (held[1], LeaseStatus.FAILED, "LW-TABLE-009")])
    with pytest.raises(RuntimeError), held[2]:
        raise RuntimeError
    found = {record.key: (str(record.status), record.note, record.epoch) for record in leases.list()}
    assert found == {
        KEYS[0]: ("completed", "", 1),
        KEYS[1]: ("failed", "LW-TABLE-009", 1),
        KEYS[2]: ("failed", "RuntimeError", 1),
    }
    # The tombstones keep the epoch, and nothing of the old work is left in the next holder's record.
    assert [lease.epoch for lease in taken(worker(place, "two")[1], *KEYS)] == [2, 2, 2]


def test_whoever_comes_second_is_told_who_is_at_work_and_gets_the_others(place: Place) -> None:
    clock = Now()
    (first,) = taken(worker(place, "one", clock)[1], KEYS[1])
    leases, groups = worker(place, "two", clock)
    before = clock.at
    assert list(groups.leased(KEYS)) == [KEYS[1]]
    found = groups.take(dict.fromkeys(KEYS, WORK), 300)
    assert [type(one) for one in found.values()] == [Lease, GroupLeasedError, Lease]
    refusal = found[KEYS[1]]
    assert isinstance(refusal, GroupLeasedError)
    assert refusal.record is not None
    assert (refusal.record.holder, refusal.code, int(refusal.exit_code)) == ("one", "LW-LEASE-004", 11)
    assert "12 files of lake.shop.orders, day=2026-01-01, are rewritten by one" in refusal.message
    assert clock.at == before  # nobody waits: there is other work
    assert dict(leases.counts.metrics()) == {"leases_active": 2, "lease_conflicts_total": 1, "lease_lost_total": 0}
    first.check()


def test_a_worker_that_is_surely_gone_is_cleared_away(memory: Place) -> None:
    clock = Now()
    (gone,) = taken(worker(memory, "gone", clock)[1], KEYS[0])
    leases, groups = worker(memory, "other", clock)
    assert not groups.scavenge()
    clock.at += 329
    assert not groups.scavenge()
    assert groups.at_work() == {TABLE: AtWork(frozenset({77}))}
    clock.at += 2
    (cleared,) = groups.scavenge()
    assert (cleared.status, cleared.epoch) == (LeaseStatus.SCAVENGED, 1)
    assert groups.at_work() == {}
    with pytest.raises(LeaseLostError):
        gone.check()
    assert taken(groups, KEYS[0])[0].epoch == 2
    assert leases.counts["scavenged"] == 1


def test_a_worker_at_work_is_not_cleared_away(memory: Place) -> None:
    clock = Now()
    (held,) = taken(worker(memory, "one", clock)[1], KEYS[0])
    groups = worker(memory, "other", clock)[1]
    for _ in range(4):
        assert not groups.scavenge()
        clock.at += 190
        held.renew()


@pytest.mark.parametrize("wrong_by", [-1e7, 1e7])
def test_a_live_lease_is_a_floor_whatever_its_holders_clock_says(place: Place, wrong_by: float) -> None:
    taken(worker(place, "one", Now(wrong_by))[1], KEYS[0])
    clock = Now()
    assert worker(place, "expiry", clock)[1].at_work() == {TABLE: AtWork(frozenset({77}))}
    clock.at += 3600 + 301  # longer than any lease lives: a dead worker is a floor no longer
    assert worker(place, "expiry", clock)[1].at_work() == {}


def test_a_record_that_cannot_be_read_names_its_table_at_least(place: Place) -> None:
    leases, groups = worker(place, "one")
    taken(groups, KEYS[0], KEYS[1])
    register = open_register(place.stores, leases._uri(KEYS[0]))
    found = register.read()
    assert found is not None
    register.write(json.dumps(json.loads(found[0]) | {"ttl_seconds": "long"}).encode(), found[1])
    assert groups.at_work() == {TABLE: AtWork(frozenset({77}), unknown=True)}
    assert [record for _, record in leases.records("", "compaction/")].count(None) == 1


def test_when_one_lease_cannot_be_had_none_is_left_behind(tmp_path: Path) -> None:
    place = Place(Stores(), f"file://{tmp_path}/state/", "local")
    broken = worker(place, "one")[0]._uri(KEYS[2])
    clock = Now()

    def register(stores: Stores, uri: str) -> Faulty:
        return Faulty(open_register(stores, uri), [(False, StoreUnavailableError)] if uri == broken else [])

    leases = Leases(place.stores, place.uri("leases"), clock, "one", register=register)
    with pytest.raises(StoreUnavailableError):
        GroupLeases(leases, clock).take(dict.fromkeys(KEYS, WORK), 300)
    assert len(taken(worker(place, "two", clock)[1], *KEYS)) == 3


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("error", [Conflict, Ambiguous])
def test_a_release_that_is_not_clear_leaves_no_ghost(place: Place, applied: bool, error: type[Exception]) -> None:
    """409 although nothing was written, 503 although it was: what stands there is read back."""
    faults: list[tuple[bool, type[Exception]]] = []
    clock = Now()
    leases = Leases(
        place.stores, place.uri("leases"), clock, "one", register=lambda s, uri: Faulty(open_register(s, uri), faults)
    )
    (held,) = taken(GroupLeases(leases, clock), KEYS[0])
    faults.append((applied, error))
    held.complete()
    found = leases.look(KEYS[0])
    assert found is not None
    assert found.status is LeaseStatus.COMPLETED


def test_a_release_that_comes_after_a_late_renewal_of_its_own_still_releases(memory: Place) -> None:
    leases, groups = worker(memory, "one")
    (held,) = taken(groups, KEYS[0])
    register = open_register(memory.stores, leases._uri(KEYS[0]))
    record, token = leases.look(KEYS[0]), register.read()
    assert record is not None
    assert token is not None
    register.write(record.renewed("late", record.renewed_at).dumps(), token[1])
    held.complete()
    found = leases.look(KEYS[0])
    assert found is not None
    assert found.status is LeaseStatus.COMPLETED
