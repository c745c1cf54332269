"""The leases of one round: one for each partition that its groups lie in, with what is done under it and what became of that."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace

from lakewarden.ledger.group_leases import AT_ONCE, GroupLeases, group_key
from lakewarden.ledger.lease import Lease
from lakewarden.model.compaction import GroupFiles, Prepared
from lakewarden.model.errors import LeaseLostError, StoreUnavailableError
from lakewarden.model.lease import LeaseStatus, Work
from lakewarden.model.plan import TablePlan


class RoundLeases:
    """Leases are held until the stack ends, which fails those whose work was not told to be done."""

    def __init__(self, leases: GroupLeases, stack: ExitStack) -> None:
        self._leases = leases
        self._stack = stack
        self._held: dict[str, Lease] = {}
        self._groups: dict[str, list[str]] = {}
        self._lease_of: dict[str, Lease] = {}

    def take(self, table: TablePlan, groups: Sequence[GroupFiles]) -> dict[str, str]:
        """Take the leases of these groups of one table. Of the groups that somebody else works on: who."""
        places: dict[str, list[GroupFiles]] = {}
        for group in groups:
            places.setdefault(group_key(table.uuid, group.place), []).append(group)
        # A look first: where somebody is at work, nothing is written.
        found = {**self._leases.leased(list(places))}
        free = {key: work_of(table, some) for key, some in places.items() if key not in found}
        for key, answer in self._leases.take(free, float(table.policy["lease_ttl_seconds"])).items():
            if isinstance(answer, Lease):
                self._held[key] = self._stack.enter_context(answer)
                self._groups[key] = [group.name for group in places[key]]
                self._lease_of |= dict.fromkeys(self._groups[key], answer)
            else:
                found[key] = answer
        return {group.name: f"{why.code} {why.message}" for key, why in found.items() for group in places[key]}

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
