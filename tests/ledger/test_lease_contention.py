"""Many workers, one S3 server: everybody who has work left gets it, no group has two holders, and faults leave no ghost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from lakewarden.ledger.group_leases import GroupLeases, group_key
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.leases import Leases
from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import GroupLeasedError, LeaseLostError
from lakewarden.model.lease import LeaseStatus, Work
from lakewarden.storage.stores import Stores
from tests.support.fault_proxy import (
    Answer,
    Fault,
    FaultProxy,
    Request,
    Send,
    busy_after,
    fault_proxy,
    lost,
    method,
    reset_after,
    slow_answer,
)
from tests.support.lease_workers import Crowd, one_object_a_group
from tests.support.storage import SHARED, Seaweed

TABLE = "99999999-9999-9999-9999-999999999999"
KEY = group_key(TABLE, "0" * 16)
WORK = Work("lake.t", TABLE, "p=1", "0", 1, 4, 100, "d")


def refused_before(_request: Request, _send: Send) -> Answer:
    """409, as S3 answers to writes that meet, and nothing was written."""
    body = b"<?xml version='1.0'?><Error><Code>ConditionalRequestConflict</Code><Message>again</Message></Error>"
    return Answer(409, (("Content-Type", "application/xml"),), body)


def refused_after(request: Request, send: Send) -> Answer:
    """409 by something on the way that sent the request twice: the first was done."""
    send(request)
    return refused_before(request, send)


AFTER_APPLY: dict[str, Fault] = {
    "503 after apply": busy_after,
    "reset after apply": reset_after,
    "no answer": lost,
    "hang": slow_answer(3.0),
    "409 before apply": refused_before,
    "409 after apply": refused_after,
}


@pytest.mark.parametrize("workers", [2, 5, 10])
def test_everybody_gets_through_and_no_group_has_two_holders(seaweed: Seaweed, workers: int) -> None:
    _, base = seaweed.fresh()
    crowd = Crowd(lambda: seaweed.fresh()[0], f"{base}leases/", workers, groups=2 * workers, within=0.5)
    found = crowd.run(one_object_a_group)
    assert found.failed == 0
    by_key = sorted(found.held)
    assert sorted({key for key, *_ in by_key}) == [group_key(TABLE, f"{n:016x}") for n in range(2 * workers)]
    for one, other in itertools.pairwise(by_key):
        if one[0] == other[0]:
            assert one[1] < other[1]
            assert one[3] <= other[2]
    assert found.p99() < 30  # the machine may be busy; the figures are the benchmark's


@pytest.fixture
def proxy(seaweed: Seaweed) -> Iterator[FaultProxy]:
    with fault_proxy(seaweed.endpoint) as opened:
        yield opened


def worker(seaweed: Seaweed, endpoint: str, base: str, name: str) -> tuple[Leases, GroupLeases]:
    # A request is given up after two seconds, so that a hang is one.
    options = seaweed.options() | {"endpoint": endpoint, "timeout": "2s"}
    clock = SystemClock()
    leases = Leases(Stores({f"s3://{SHARED}": options}), base, clock, name)
    return leases, GroupLeases(leases, clock)


@pytest.mark.parametrize("fault", AFTER_APPLY, ids=lambda name: name.replace(" ", "-"))
def test_no_ghost_and_no_two_holders_behind_a_proxy_that_loses_answers(
    seaweed: Seaweed, proxy: FaultProxy, fault: str
) -> None:
    """Each write of one lease's life meets the fault: taken, renewed and ended all the same, and the next one gets it."""
    _, base = seaweed.fresh()
    mine, groups = worker(seaweed, proxy.endpoint, f"{base}leases/", "one")
    others, rivals = worker(seaweed, seaweed.endpoint, f"{base}leases/", "two")
    writes = method("PUT", path=".register")

    # Before a write: its store has shown by then that it keeps conditions.
    hit = proxy.on(writes, AFTER_APPLY[fault])
    lease = groups.take({KEY: WORK}, 300)[KEY]
    assert isinstance(lease, Lease)
    assert hit.hits == 1
    lease.check()
    assert isinstance(rivals.take({KEY: WORK}, 300)[KEY], GroupLeasedError)

    proxy.on(writes, AFTER_APPLY[fault])
    lease.renew()
    lease.check()
    assert isinstance(rivals.take({KEY: WORK}, 300)[KEY], GroupLeasedError)

    proxy.on(writes, AFTER_APPLY[fault])
    lease.complete()
    with pytest.raises(LeaseLostError):
        lease.check()
    record = others.look(KEY)
    assert record is not None
    assert (record.status, record.epoch) == (LeaseStatus.COMPLETED, 1)
    following = rivals.take({KEY: WORK}, 300)[KEY]
    assert isinstance(following, Lease)
    assert following.epoch == 2
    assert mine.counts["lost"] == 0
