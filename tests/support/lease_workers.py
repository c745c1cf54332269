"""Workers that want leases at once: of one object a group, as ours are, and of one document for all, as the first design was.

Each worker has so many groups to get through, in an order of its own, and is at work on each for a moment.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lakewarden.ledger.group_leases import GroupLeases, group_key
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.lease_counts import OVERTAKEN
from lakewarden.ledger.leases import Leases
from lakewarden.model.clock import SystemClock
from lakewarden.model.lease import LeaseStatus, Work
from lakewarden.storage.cas import Ambiguous, Conflict, Register, open_register
from lakewarden.storage.conditions import prove_conditions
from lakewarden.storage.stores import Stores

TABLE = "99999999-9999-9999-9999-999999999999"
# The first design's: five tries, and a wait that doubles and is the same for everybody.
SEED_TRIES, SEED_WAIT = 5, 0.1


@dataclass
class Tally:
    """What workers met: how long each acquisition took, writes that were overtaken, and workers that gave up."""

    seconds: list[float] = field(default_factory=list)
    asked: int = 0
    conflicts: int = 0
    failed: int = 0
    held: list[tuple[str, int, float, float]] = field(default_factory=list)

    def p99(self) -> float:
        ordered = sorted(self.seconds)
        return ordered[max(0, -(-len(ordered) * 99 // 100) - 1)] if ordered else 0.0

    def conflict_share(self) -> float:
        return self.conflicts / max(1, self.asked)


@dataclass(frozen=True)
class Crowd:
    """So many workers, each with a store of its own, over so many groups; they come at once, or within some seconds."""

    stores: Callable[[], Stores]
    base: str
    workers: int
    groups: int
    within: float = 0.0
    at_work: float = 0.01

    def run(self, one: Callable[[Crowd, Stores, int, Tally], None]) -> Tally:
        """Every worker's tally, summed up. Each has its connections open before the first of them begins."""
        tallies = [Tally() for _ in range(self.workers)]
        start = threading.Barrier(self.workers)

        def worker(number: int) -> None:
            stores = self.stores()
            prove_conditions(stores, f"{self.base}x")
            start.wait()
            time.sleep(random.Random(number).random() * self.within)
            one(self, stores, number, tallies[number])

        with ThreadPoolExecutor(self.workers) as pool:
            for done in [pool.submit(worker, number) for number in range(self.workers)]:
                done.result()
        return Tally(
            [s for t in tallies for s in t.seconds],
            sum(t.asked for t in tallies),
            sum(t.conflicts for t in tallies),
            sum(t.failed for t in tallies),
            [h for t in tallies for h in t.held],
        )

    def places(self, number: int) -> Sequence[str]:
        """The groups in a worker's own order."""
        names = [f"{group:016x}" for group in range(self.groups)]
        return sorted(names, key=lambda name: hashlib.sha256(f"w{number}\n{name}".encode()).hexdigest())


def one_object_a_group(crowd: Crowd, stores: Stores, number: int, tally: Tally) -> None:
    """Ours: look which groups are free, take the first of them, work, say that it is done; until no group is left."""
    clock = SystemClock()
    leases = Leases(stores, crowd.base, clock, f"w{number}")
    groups = GroupLeases(leases, clock)
    for place in crowd.places(number):
        key = group_key(TABLE, place)
        began = time.monotonic()
        found = leases.look(key)
        if found is not None:
            continue  # somebody is at work on it, or has done it
        tally.asked += 1
        work = Work("t", TABLE, place, "0", 1, 1, 1, place)
        lease = groups.take({key: work}, 300)[key]
        tally.seconds.append(time.monotonic() - began)
        if isinstance(lease, Lease):
            with lease:
                start = time.monotonic()
                time.sleep(crowd.at_work)
                tally.held.append((key, lease.epoch, start, time.monotonic()))
                lease.release(LeaseStatus.COMPLETED)
    tally.conflicts = leases.counts[OVERTAKEN]


def one_document(crowd: Crowd, stores: Stores, number: int, tally: Tally) -> None:
    """The first design: one JSON document with every lease, compare-and-swap, five tries, a wait without jitter."""
    register = open_register(stores, f"{crowd.base}all.register")
    for place in crowd.places(number):
        began = time.monotonic()
        taken = _change(register, tally, lambda leases, place=place: _claim(leases, place, number))  # type: ignore[misc]
        if taken is False:
            continue  # somebody is at work on it, or has done it
        tally.asked += 1
        tally.seconds.append(time.monotonic() - began)
        if taken is None:
            tally.failed += 1
            return
        start = time.monotonic()
        time.sleep(crowd.at_work)
        tally.held.append((place, 1, start, time.monotonic()))
        if _change(register, tally, lambda leases, place=place: _done(leases, place)) is None:  # type: ignore[misc]
            tally.failed += 1
            return


def _claim(leases: dict[str, str], place: str, number: int) -> bool:
    if place in leases:
        return False
    leases[place] = f"w{number}"
    return True


def _done(leases: dict[str, str], place: str) -> bool:
    leases[place] = "completed"
    return True


def _change(register: Register, tally: Tally, change: Callable[[dict[str, str]], bool]) -> bool | None:
    """Whether the change was made; None if the tries were used up."""
    for attempt in range(SEED_TRIES):
        found = register.read()
        leases: dict[str, str] = json.loads(found[0]) if found else {}
        if not change(leases):
            return False
        try:
            register.write(json.dumps(leases).encode(), found[1] if found else None)
            return True
        except (Conflict, Ambiguous):
            tally.conflicts += 1
            time.sleep(SEED_WAIT * 2**attempt)
    return None
