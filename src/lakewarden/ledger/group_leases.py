"""The leases of groups of files that are rewritten: which are free, taken side by side, cleared away, and who is at work.

One lease covers one partition of one table, whatever files of it are rewritten: two plans that were made at different
moments group the files of a partition differently, and still ask for the same lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.ledger.lease import Lease
from lakewarden.ledger.leases import GROUPS, Leases
from lakewarden.model.clock import Clock
from lakewarden.model.errors import GroupLeasedError, LeaseHeldError
from lakewarden.model.lease import LeaseRecord, LeaseState, LeaseStatus, Work
from lakewarden.model.margins import MARGINS

AT_ONCE = 16
# The longest that a group's lease may live, by `compaction.lease_ttl_seconds`.
LONGEST = timedelta(hours=1)


def group_key(table_uuid: str, place: str) -> str:
    """The lease of one partition of one table; `place` is short and tells partitions apart."""
    return f"{GROUPS}{table_uuid}/{place}"


@dataclass(frozen=True, slots=True)
class AtWork:
    """What is being rewritten in one table: the snapshots that it is read from. `unknown`: a record cannot be read."""

    snapshots: frozenset[int] = frozenset()
    unknown: bool = False


class GroupLeases:
    """Leases of groups, for one worker. Nobody waits here: there is other work."""

    def __init__(self, leases: Leases, clock: Clock) -> None:
        self._leases = leases.waiting(0.0)
        self._clock = clock

    def leased(self, keys: Sequence[str]) -> dict[str, GroupLeasedError]:
        """Of these, the ones that somebody else holds now: a look before anything is prepared for them."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(self._leases.held, keys)
            return {key: _leased(record) for key, record in zip(keys, found, strict=True) if record is not None}

    def take(self, wanted: Mapping[str, Work], ttl_seconds: float) -> dict[str, Lease | GroupLeasedError]:
        """Each lease, or who has it. They are to be entered by the thread that works under them."""

        def one(key: str) -> Lease | GroupLeasedError:
            try:
                return self._leases.acquire(key, ttl_seconds, work=wanted[key])
            except LeaseHeldError as error:
                return _leased(error.record) if error.record is not None else GroupLeasedError(error.message)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            asked = {key: pool.submit(one, key) for key in wanted}
        failed = next((answer for answer in asked.values() if answer.exception() is not None), None)
        if failed is not None:
            for answer in asked.values():
                if answer.exception() is None and isinstance(lease := answer.result(), Lease):
                    lease.release()
        return {key: answer.result() for key, answer in asked.items()}

    def end(self, endings: Sequence[tuple[Lease, LeaseStatus, str]]) -> None:
        """Write the tombstones of several leases side by side: each waits for its store."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for ended in [pool.submit(lease.release, status, why) for lease, status, why in endings]:
                ended.result()

    def scavenge(self) -> Sequence[LeaseRecord]:
        """Clear away the leases of workers that are surely gone, so that they are no floor for anybody any longer."""
        cleared = (self._leases.clear(record) for _, record in self._recent() if record is not None)
        return [record for record in cleared if record is not None]

    def at_work(self) -> Mapping[str, AtWork]:
        """By the uuid of its table, what is being rewritten now, or may be: in doubt, it is.

        A lease counts from when it was taken until it is ended, or as long as none may live has passed by the store's
        own time. Nothing that its holder's clock says matters.
        """
        found: dict[str, AtWork] = {}
        for uri, record in self._recent():
            if record is None:
                # The name of the record says whose it is: table uuid, partition, and the key's digest.
                uuid = uri.rpartition("/")[2].rsplit("-", 2)[0]
                found[uuid] = AtWork(found.get(uuid, AtWork()).snapshots, unknown=True)
            elif record.state is LeaseState.HELD and (work := record.work) is not None:
                so_far = found.get(work.table_uuid, AtWork())
                start = {work.start_snapshot} if work.start_snapshot is not None else set()
                found[work.table_uuid] = AtWork(so_far.snapshots | start, so_far.unknown)
        return found

    def _recent(self) -> Sequence[tuple[str, LeaseRecord | None]]:
        since = self._clock.now() - LONGEST - MARGINS.clock_skew
        return self._leases.records(GROUPS, since=since)


def _leased(record: LeaseRecord) -> GroupLeasedError:
    work = record.work
    what = f"{work.files} files of {work.table}, {work.partition}," if work is not None else record.key
    return GroupLeasedError(
        f"{what} are rewritten by {record.holder} (lease {record.key}, epoch {record.epoch}); they were left to it",
        record=record,
    )
