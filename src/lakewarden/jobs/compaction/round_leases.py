"""The leases of one round: one for each partition that its groups lie in, with what is done under it and what became of that."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from lakewarden.ledger.group_leases import AT_ONCE, GroupLeases, group_key
from lakewarden.ledger.lease import Lease
from lakewarden.model.compaction import GroupFiles, Prepared
from lakewarden.model.errors import GroupLeasedError, LakewardenError, LeaseLostError, StoreUnavailableError
from lakewarden.model.lease import LeaseStatus, Work
from lakewarden.model.plan import TablePlan

TABLES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Taken:
    """What came of one table's leases: the groups under each, the leases that are ours, and who has the others."""

    names: Mapping[str, Sequence[str]]
    held: Mapping[str, Lease]
    others: Mapping[str, GroupLeasedError]


class RoundLeases:
    """Leases are held until the stack ends, which fails those whose work was not told to be done."""

    def __init__(self, leases: GroupLeases, stack: ExitStack) -> None:
        self._leases = leases
        self._stack = stack
        self._held: dict[str, Lease] = {}
        self._groups: dict[str, Sequence[str]] = {}
        self._lease_of: dict[str, Lease] = {}

    def take(self, wanted: Sequence[tuple[TablePlan, Sequence[GroupFiles]]]) -> list[dict[str, str] | LakewardenError]:
        """Take the leases of these groups, tables side by side. Of each table the groups that somebody else works on, and
        who that is; or what kept its leases from being taken."""
        asked: list[Future[_Taken]] = []
        try:
            with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
                asked = [pool.submit(self._taken, table, groups) for table, groups in wanted]
            return [self._entered(one) for one in asked]
        except BaseException:
            # Those of other threads, which nobody will work under.
            for one in asked:
                for key, lease in one.result().held.items() if one.exception() is None else ():
                    if key not in self._held:
                        lease.release()
            raise

    def _taken(self, table: TablePlan, groups: Sequence[GroupFiles]) -> _Taken:
        places: dict[str, list[GroupFiles]] = {}
        for group in groups:
            places.setdefault(group_key(table.uuid, group.place), []).append(group)
        # A look first: where somebody is at work, nothing is written.
        others = {**self._leases.leased(list(places))}
        free = {key: work_of(table, some) for key, some in places.items() if key not in others}
        held: dict[str, Lease] = {}
        for key, answer in self._leases.take(free, float(table.policy["lease_ttl_seconds"])).items():
            if isinstance(answer, Lease):
                held[key] = answer
            else:
                others[key] = answer
        return _Taken({key: [group.name for group in some] for key, some in places.items()}, held, others)

    def _entered(self, asked: Future[_Taken]) -> dict[str, str] | LakewardenError:
        """Renew what was taken from now on, for as long as this thread is at work."""
        if isinstance(error := asked.exception(), LakewardenError):
            return error
        taken = asked.result()
        for key, lease in taken.held.items():
            self._held[key] = self._stack.enter_context(lease)
            self._groups[key] = taken.names[key]
            self._lease_of |= dict.fromkeys(taken.names[key], lease)
        return {name: f"{why.code} {why.message}" for key, why in taken.others.items() for name in taken.names[key]}

    def begun(self, ready: Prepared) -> None:
        """Write down which snapshot the groups are read from, before a byte of them is: no expiry takes it from now on."""
        leases = {
            lease.key: (lease, name)
            for name in (*ready.orders, *ready.by_engine)
            if (lease := self._lease_of[name]).work is not None
        }

        def tell(lease: Lease, group: str) -> None:
            assert lease.work is not None
            partition = ready.partitions.get(group) or lease.work.partition
            started = replace(
                lease.work, start_snapshot=ready.start_snapshot, partition=partition, progress="rewriting"
            )
            lease.tell(started)
            with suppress(LeaseLostError, StoreUnavailableError):
                # One that is lost is found before the commit; one that the store did not take is written with the next.
                lease.renew()

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for told in [pool.submit(tell, *one) for one in leases.values()]:
                told.result()

    def committing(self, groups: Collection[str]) -> None:
        """Say that the groups are written. Others hear of it with the next renewal."""
        for lease in {id(found): found for name in groups if (found := self._lease_of.get(name))}.values():
            if lease.work is not None:
                lease.tell(replace(lease.work, progress="committing"))

    def of(self, group: str) -> Lease:
        return self._lease_of[group]

    def lost(self, group: str) -> str | None:
        """Why nothing of a group may be committed any more; None if its lease is held."""
        try:
            self._lease_of[group].check()
        except LeaseLostError as error:
            return f"{error.code} {error.message}; its files were left as they are"
        return None

    def in_vain(self) -> bool:
        """Whether no lease of the round is held any more: nothing that is written could be committed."""
        return bool(self._lease_of) and all(self.lost(group) is not None for group in self._lease_of)

    def end(self, done: Collection[str], left: Mapping[str, str]) -> None:
        """Write what became of each lease's work: completed if any of its groups was committed."""
        endings: list[tuple[Lease, LeaseStatus, str]] = []
        for key, names in self._groups.items():
            if any(name in done for name in names):
                endings.append((self._held[key], LeaseStatus.COMPLETED, ""))
            elif whys := [left[name] for name in names if name in left]:
                endings.append((self._held[key], LeaseStatus.FAILED, whys[0]))
        self._leases.end(endings)


def work_of(table: TablePlan, groups: Sequence[GroupFiles]) -> Work:
    """What the lease of some groups of one partition is for."""
    paths = sorted(path for group in groups for path in group.paths)
    levels = sorted({found for group in groups for found in re.findall(r"level (\d+)", group.reason)})
    return Work(
        table=table.identifier,
        table_uuid=table.uuid,
        partition=groups[0].place,
        level="+".join(levels),
        groups=len(groups),
        files=len(paths),
        bytes=sum(group.size for group in groups),
        digest=hashlib.sha256("\n".join(paths).encode()).hexdigest()[:16],
        progress="preparing",
    )
