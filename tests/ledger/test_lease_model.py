"""Leases as a model: workers whose clocks go wrong, writes that are lost, repeated or late, crashes and pauses, at random.

Whatever happens: the epochs of a lease strictly grow, no two holders commit under one epoch, and no two workers believe at
one moment that they hold it.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakewarden.ledger.lease import Lease
from lakewarden.ledger.leases import Leases
from lakewarden.model.errors import LeaseCorruptError, LeaseHeldError, LeaseLostError, StoreUnavailableError
from lakewarden.model.lease import LeaseRecord, LeaseStatus
from lakewarden.storage.cas import Ambiguous, Conflict
from lakewarden.storage.stores import Stores

TTL = 300.0
KEYS = ("compaction/t/a",)
WORKERS = 3
FAULTS = ("none", "lost before", "lost after", "refused before", "refused after", "late", "down")


@dataclass
class World:
    """The true time, what the store holds, and writes that are still on their way."""

    at: float = 0.0
    held: dict[str, bytes] = field(default_factory=dict)
    under_way: list[tuple[str, bytes, str | None]] = field(default_factory=list)

    def token(self, uri: str) -> str | None:
        # The tag is a digest of the bytes, as on S3: a document that came back would match an old tag.
        return hashlib.md5(self.held[uri]).hexdigest() if uri in self.held else None

    def apply(self, uri: str, data: bytes, token: str | None) -> bool:
        if self.token(uri) != token:
            return False
        before, after = _record(self.held.get(uri)), _record(data)
        if before is not None and after is not None:
            assert after.seq > before.seq, "a record was written with a sequence number that was there before"
            assert after.epoch >= before.epoch, "an epoch was forgotten"
        self.held[uri] = data
        return True


def _record(data: bytes | None) -> LeaseRecord | None:
    try:
        return LeaseRecord.loads(data) if data is not None else None
    except ValueError:
        return None


@dataclass
class Skewed:
    """One machine's clocks: its wall clock is wrong by any amount, its boot clock goes too fast or too slow."""

    world: World
    rate: float
    wrong_by: float

    def boot(self) -> float:
        return 1000 + self.world.at * self.rate

    def now(self) -> datetime:
        return datetime.fromtimestamp(1.7e9 + self.world.at + self.wrong_by, UTC)

    def sleep(self, seconds: float) -> None:
        self.world.at += seconds / self.rate


class Unsure:
    """One lease's register as one worker sees it. The worker's next write meets the fault that was chosen for it."""

    def __init__(self, worker: Worker, uri: str) -> None:
        self.worker = worker
        self.uri = uri

    def read(self) -> tuple[bytes, str] | None:
        if self.worker.fault == "down":
            raise StoreUnavailableError("the store is away")
        world = self.worker.world
        return (world.held[self.uri], str(world.token(self.uri))) if self.uri in world.held else None

    def write(self, data: bytes, token: str | None) -> str:
        world, fault = self.worker.world, self.worker.fault
        if fault == "down":
            raise Ambiguous("the store is away")
        self.worker.fault = "none"
        if fault == "late":
            world.under_way.append((self.uri, data, token))
            raise Ambiguous("no answer in time")
        done = fault not in ("lost before", "refused before") and world.apply(self.uri, data, token)
        if fault.startswith("lost"):
            raise Ambiguous("the answer was lost")
        if fault.startswith("refused") or not done:
            raise Conflict(self.uri)
        return str(world.token(self.uri))


class Worker:
    """A process with a clock of its own. A crash forgets everything, and the next process begins."""

    def __init__(self, world: World, name: str, rate: float, wrong_by: float) -> None:
        self.world = world
        self.name = name
        self.clock = Skewed(world, rate, wrong_by)
        self.fault = "none"
        self.begin()

    def begin(self) -> None:
        numbers = itertools.count()
        self.mine: list[Lease] = []
        self.leases = Leases(
            Stores(),
            f"memory://model-{id(self.world)}/leases",
            self.clock,
            self.name,
            nonce=lambda: f"{self.name}-{id(self.leases)}-{next(numbers)}",
            jitter=lambda: 0.5,
            register=lambda _, uri: Unsure(self, uri),
        )


class LeaseModel(RuleBasedStateMachine):
    @initialize(
        rates=st.lists(st.floats(0.8, 1.25), min_size=WORKERS, max_size=WORKERS),
        wrong=st.lists(st.floats(-1e8, 1e8), min_size=WORKERS, max_size=WORKERS),
    )
    def start(self, rates: list[float], wrong: list[float]) -> None:
        self.world = World()
        self.workers = [Worker(self.world, f"w{n}", rates[n], wrong[n]) for n in range(WORKERS)]
        self.epochs: dict[str, int] = {}
        self.commits: dict[str, list[int]] = {key: [] for key in KEYS}
        self.about_to: list[Lease] = []
        self.committed: list[Lease] = []
        # Leases that an operator took away: their holders hear of it only at the next renewal.
        self.taken_away: set[int] = set()
        self.kept_alive: list[Lease] = []  # so that no other lease gets the id of one that was taken away

    worker = st.integers(0, WORKERS - 1)
    key = st.sampled_from(KEYS)
    fault = st.sampled_from(FAULTS)

    @rule(seconds=st.sampled_from([1.0, 20.0, 90.0, 190.0, 210.0, 290.0, 340.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.at += seconds

    @rule(n=worker, key=key, fault=fault)
    def acquire(self, n: int, key: str, fault: str) -> None:
        worker = self.workers[n]
        worker.fault = fault
        try:
            lease = worker.leases.acquire(key, TTL)
        except (LeaseHeldError, LeaseCorruptError, StoreUnavailableError):
            return
        finally:
            worker.fault = "none"
        assert lease.epoch > self.epochs.get(key, 0), "an epoch was given out twice"
        self.epochs[key] = lease.epoch
        worker.mine.append(lease)

    @rule(n=worker, key=key, seconds=st.sampled_from([150.0, 250.0, 350.0, 450.0]), fault=fault)
    def watch_and_acquire(self, n: int, key: str, seconds: float, fault: str) -> None:
        """What a worker does that finds a lease held: it looks, lets time pass, and looks again."""
        self.acquire(n, key, "none")
        self.time_passes(seconds)
        self.acquire(n, key, fault)

    @rule(n=worker, fault=fault)
    def renew(self, n: int, fault: str) -> None:
        worker = self.workers[n]
        for lease in worker.mine:
            worker.fault = fault
            try:
                lease.renew()
            except (LeaseLostError, StoreUnavailableError):
                pass
            finally:
                worker.fault = "none"

    @rule(n=worker, fault=fault, ended=st.sampled_from([LeaseStatus.COMPLETED, LeaseStatus.FAILED]))
    def end(self, n: int, fault: str, ended: LeaseStatus) -> None:
        worker = self.workers[n]
        for lease in worker.mine[:1]:
            worker.fault = fault
            lease.release(ended)
            worker.fault = "none"
        worker.mine = worker.mine[1:]

    @rule(n=worker)
    def crash(self, n: int) -> None:
        self.workers[n].begin()

    @rule(place=st.integers(0, 5))
    def a_late_write_arrives(self, place: int) -> None:
        if place < len(self.world.under_way):
            self.world.apply(*self.world.under_way.pop(place))

    @rule(n=worker)
    def scavenge(self, n: int) -> None:
        for data in list(self.world.held.values()):
            if (record := _record(data)) is not None:
                self.workers[n].leases.clear(record)

    @rule(n=worker)
    def about_to_commit(self, n: int) -> None:
        """The last look before the swap. How long the swap takes after it, nobody knows."""
        for lease in self.workers[n].mine:
            if _held(lease) and lease not in self.about_to:
                self.about_to.append(lease)

    @rule(place=st.integers(0, 3))
    def commit(self, place: int) -> None:
        """The swap, once a lease: the table takes a commit unless one under a later epoch is there already."""
        if place < len(self.about_to):
            lease = self.about_to.pop(place)
            if lease not in self.committed and lease.epoch >= max(self.commits[lease.key], default=0):
                self.commits[lease.key].append(lease.epoch)
                self.committed.append(lease)

    @rule(key=key, junk=st.booleans())
    def an_operator_takes_it_away(self, key: str, junk: bool) -> None:
        worker = self.workers[0]
        if (uri := worker.leases._uri(key)) not in self.world.held:
            return
        if junk:
            self.world.held[uri] = b"{" + self.world.held[uri][:-9]
        record = worker.leases.force_release(key, "stuck", "ann")
        self.epochs[key] = max(self.epochs.get(key, 0), record.epoch)
        every = [lease for one in self.workers for lease in one.mine if lease.key == key]
        self.taken_away |= {id(lease) for lease in every}
        self.kept_alive += every

    @invariant()
    def nobody_believes_beside_another(self) -> None:
        for key in KEYS:
            every = [lease for worker in self.workers for lease in worker.mine if lease.key == key]
            believers = [lease.holder for lease in every if id(lease) not in self.taken_away and _held(lease)]
            assert len(believers) <= 1, f"{believers} believe to hold {key}"

    @invariant()
    def commits_are_in_the_order_of_epochs(self) -> None:
        for epochs in self.commits.values():
            assert epochs == sorted(set(epochs)), f"commits under epochs {epochs}"


def _held(lease: Lease) -> bool:
    try:
        lease.check()
    except LeaseLostError:
        return False
    return True


LeaseModel.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLeaseModel: Any = LeaseModel.TestCase
