"""Apply a plan that removes branches: place by place, each branch looked at anew, written down, then removed.

A branch that moved since the plan, or whose files are there again, is left alone, by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakewarden.jobs.stale_branches.judged import Judge
from lakewarden.ledger.lease import Lease
from lakewarden.model.branches import BranchKeeper, BranchPlace, BranchPolicy
from lakewarden.model.errors import PlanOutdatedError, TableMovedError
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import TablePlan
from lakewarden.model.run import FailedFile
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.guard import all_held
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.steps.deployment import required
from lakewarden.steps.observe.presence import look

TRIES = 10
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
RECORDED, REMOVED = "recorded", "removed"
TAKEN = "somebody else removed it since the plan"

Line = Mapping[str, Any]


class Run(TableRun):
    """One run of one plan."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim)
        self._done: dict[str, Mapping[str, Any]] = {step["table"]: step for step in self.steps(REMOVED)}
        # What a process before this one was about to remove: what of it is gone now went by this run.
        self._recorded = {
            (step["table"], record["name"]) for step in self.steps(RECORDED) for record in step["records"]
        }

    def is_done(self, table: TablePlan) -> bool:
        return table.identifier in self._done

    def changed(self) -> Mapping[str, int]:
        total = Counter({"refs": 0})
        for step in self._done.values():
            total.update(step["changes"])
        return total

    def failures(self) -> list[FailedFile]:
        return [*super().failures(), *self._left()]

    def _left(self) -> Iterator[FailedFile]:
        """Every branch that was left alone, also by this run before a crash."""
        for name, step in self._done.items():
            for branch, why in step["left"].items():
                yield FailedFile(f"{name} {branch}", PlanOutdatedError.code, why)

    def do(self) -> None:
        """Every place; of an expired plan only what a process before this one had removed and not recorded."""
        if self.deployment.clock.now() >= self.plan.expires_at:
            for table in self.to_do():
                self.attempt(table, self._gone_before)
            if self._passing:
                raise next(iter(self._passing.values()))
        super().do()

    def _gone_before(self, table: TablePlan) -> None:
        """What is gone of a place and was on record before it went; a place of which nothing is stays to do."""
        lines = _going(table)
        keeper = required(self.deployment.format_of(table.identifier).branch_keeper, table.identifier)
        place = self._looked_at(keeper, table)
        here = {sight.name for sight in place.sights} if place is not None else set()
        gone = [line for line in lines if line["name"] not in here]
        if any((table.identifier, line["name"]) in self._recorded for line in gone):
            changes, left = self._after(table, gone, whole=place is None)
            kept = {line["name"]: "the plan expired before it was removed; it was kept" for line in lines}
            self._note(table, changes, left | {name: why for name, why in kept.items() if name in here})

    def change(self, tables: Sequence[TablePlan]) -> None:
        """Place by place."""
        for number, table in enumerate(tables, start=1):
            self.attempt(table, self._place)
            self.claim.progress("remove branches", number, len(tables))

    def _place(self, table: TablePlan) -> None:
        """What goes of one place; again on what it is then, if somebody else was quicker."""
        name = table.identifier
        keeper = required(self.deployment.format_of(name).branch_keeper, name)
        tries = Retrying(
            retry=retry_if_exception_type(TableMovedError),
            stop=stop_after_attempt(TRIES),
            wait=wait_random_exponential(FIRST_WAIT, LONGEST_WAIT),
            reraise=True,
        )
        with ExitStack() as stack:
            leases = [
                stack.enter_context(self.root_lease(prefix, wait=MARGINS.lease_wait_seconds))
                for prefix in self.roots_of(name)
            ]
            changes, left = tries(self._once, keeper, table, [self.lease, *leases])
        self._note(table, changes, left)

    def _note(self, table: TablePlan, changes: Mapping[str, int], left: Mapping[str, str]) -> None:
        """On record: a place is done."""
        self._done[table.identifier] = {"table": table.identifier, "changes": changes, "left": left}
        self.deployment.ledger.runs.step(self.run_id, REMOVED, dict(self._done[table.identifier]))

    def _once(
        self, keeper: BranchKeeper, table: TablePlan, leases: Sequence[Lease]
    ) -> tuple[dict[str, int], dict[str, str]]:
        """One try: how many of each kind went, and which branches were left and why."""
        self.check_may_go_on()
        lines = _going(table)
        place = self._looked_at(keeper, table)
        if place is None:
            return self._after(table, lines, whole=True)
        left = self._left_alone(keeper, place, table, lines)
        here = {sight.name for sight in place.sights}
        going = [line for line in lines if line["name"] in here and line["name"] not in left]
        gone = [line for line in lines if line["name"] not in here and line["name"] not in left]
        counts = Counter({"refs": len(gone)})
        if going:
            self._write_down(table, place, going)
            all_held(leases)
            names = [line["name"] for line in going]
            try:
                counts.update(keeper.remove(place, names, self.now(), self.lineage))
            except TableMovedError:
                # What is gone at the next look went by somebody else's hand.
                self._recorded -= {(table.identifier, name) for name in names}
                raise
        return dict(counts), left

    def _looked_at(self, keeper: BranchKeeper, table: TablePlan) -> BranchPlace | None:
        """The place as it is now; None if it is gone. Raises PlanOutdatedError if it is another one."""
        place = keeper.look(table.identifier)
        if place is not None and (place.refusal is not None or place.uuid != table.uuid):
            why = place.refusal.message if place.refusal else "it was dropped and made again"
            raise PlanOutdatedError(
                f"{table.identifier} is not what was planned any more ({why}); nothing of it was changed"
            )
        return place

    def _left_alone(
        self, keeper: BranchKeeper, place: BranchPlace, table: TablePlan, lines: Sequence[Line]
    ) -> dict[str, str]:
        """The planned branches that stay, each with the reason."""
        policy = BranchPolicy.of({**table.policy, "enabled": True})
        planned = {line["name"]: line for line in lines}
        asked = [sight for sight in place.sights if sight.name in planned]
        files = (uri for sight in asked for uri in (*sight.needs, *sight.witnesses))
        place, seen = replace(place, sights=tuple(asked)), look(self.deployment.stores, files)
        found = {one.sight.name: one for one in Judge(self.deployment, self.now()).of(keeper, place, policy, seen)}
        left: dict[str, str] = {}
        for name, line in planned.items():
            now = found.get(name)
            if now is None:
                if (table.identifier, name) not in self._recorded:
                    left[name] = TAKEN
            elif dict(now.sight.record) != line["record"]:
                left[name] = "it moved since the plan; it was kept"
            elif str(now.found.state) != line["state"] or not now.found.goes:
                left[name] = f"it is {now.found.state} now ({now.found.kept or now.found.reason}); it was kept"
        return left

    def _write_down(self, table: TablePlan, place: BranchPlace, going: Sequence[Line]) -> None:
        """The record by which a branch can be made again, in the ledger before the branch goes."""
        whole = place.emptied_by([line["name"] for line in going])
        records = [
            {
                **line["record"],
                "name": line["name"],
                "table": line["table"],
                "uuid": place.uuid,
                "snapshot_id": line["snapshot_id"],
                "state": line["state"],
                "metadata_location": place.metadata_location,
                "whole": whole,
            }
            for line in going
        ]
        self.deployment.ledger.runs.step(self.run_id, RECORDED, {"table": table.identifier, "records": records})
        self._recorded |= {(table.identifier, line["name"]) for line in going}

    def _after(self, table: TablePlan, lines: Sequence[Line], *, whole: bool) -> tuple[dict[str, int], dict[str, str]]:
        """Branches that are gone, or the place with them: by this run before a crash, or by somebody else."""
        ours = [line for line in lines if (table.identifier, line["name"]) in self._recorded]
        left = {line["name"]: TAKEN for line in lines if line not in ours}
        return {"refs": len(ours), **({"branches": 1} if whole and ours and table.detail["whole"] else {})}, left


def _going(table: TablePlan) -> list[Line]:
    return [line for line in table.detail["branches"] if line["goes"]]
