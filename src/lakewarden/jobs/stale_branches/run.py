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
from lakewarden.steps.apply.lineage import lineage
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.steps.deployment import required
from lakewarden.steps.observe.presence import look

TRIES = 10
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
RECORDED, REMOVED = "recorded", "removed"

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
                yield FailedFile(f"{name} {branch}", PlanOutdatedError.code, f"{why}; it was kept")

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
        self._done[name] = {"table": name, "changes": changes, "left": left}
        self.deployment.ledger.runs.step(self.run_id, REMOVED, dict(self._done[name]))

    def _once(
        self, keeper: BranchKeeper, table: TablePlan, leases: Sequence[Lease]
    ) -> tuple[dict[str, int], dict[str, str]]:
        """One try: how many of each kind went, and which branches were left and why."""
        self.check_may_go_on()
        lines = [line for line in table.detail["branches"] if line["goes"]]
        place = keeper.look(table.identifier)
        if place is None:
            return self._after(table, lines)
        if place.refusal is not None or place.uuid != table.uuid:
            why = place.refusal.message if place.refusal else "it was dropped and made again"
            raise PlanOutdatedError(
                f"{table.identifier} is not what was planned any more ({why}); nothing of it was changed"
            )
        left = self._left_alone(keeper, place, table, lines)
        here = {sight.name for sight in place.sights}
        going = [line for line in lines if line["name"] in here and line["name"] not in left]
        gone = [line for line in lines if line["name"] not in here and line["name"] not in left]
        counts = Counter({"refs": len(gone)})
        if going:
            self._write_down(table, place, going)
            all_held(leases)
            properties = lineage(self.deployment, self.plan, self.run_id)
            counts.update(keeper.remove(place, [line["name"] for line in going], self.now(), properties))
        return dict(counts), left

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
                    left[name] = "somebody else removed it since the plan"
            elif dict(now.sight.record) != line["record"]:
                left[name] = "it moved since the plan"
            elif str(now.found.state) != line["state"] or not now.found.goes:
                left[name] = f"it is {now.found.state} now ({now.found.kept or now.found.reason})"
        return left

    def _write_down(self, table: TablePlan, place: BranchPlace, going: Sequence[Line]) -> None:
        """The record by which a branch can be made again, in the ledger before the branch goes."""
        records = [
            {
                **line["record"],
                "name": line["name"],
                "table": line["table"],
                "uuid": place.uuid,
                "snapshot_id": line["snapshot_id"],
                "state": line["state"],
                "metadata_location": place.metadata_location,
            }
            for line in going
        ]
        self.deployment.ledger.runs.step(self.run_id, RECORDED, {"table": table.identifier, "records": records})
        self._recorded |= {(table.identifier, line["name"]) for line in going}

    def _after(self, table: TablePlan, lines: Sequence[Line]) -> tuple[dict[str, int], dict[str, str]]:
        """A place that is gone: by this run before a crash, or by somebody else."""
        ours = [line for line in lines if (table.identifier, line["name"]) in self._recorded]
        left = {line["name"]: "somebody else removed it since the plan" for line in lines if line not in ours}
        return {"refs": len(ours), **({"branches": 1} if ours and table.detail["whole"] else {})}, left
