"""Apply a compaction plan: groups of many tables rewritten side by side under leases, each table committed by itself.

A group that somebody else works on is left to them. What was rewritten counts only once it is committed, and a commit
takes only groups whose files nobody touched meanwhile.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import pyarrow as pa

from lakewarden.jobs.compaction.leftovers import let_go, settle_leftovers
from lakewarden.jobs.compaction.pace import budget_of, rate_of, rest_after, share_of, waves
from lakewarden.jobs.compaction.rate import WORKED
from lakewarden.jobs.compaction.round_leases import TABLES_AT_ONCE, RoundLeases
from lakewarden.ledger.group_leases import GroupLeases
from lakewarden.ledger.lease import Lease
from lakewarden.model.compaction import COMPACTED, GROUP_LEFT, GroupFiles, GroupLease, Landed, Prepared
from lakewarden.model.errors import LakewardenError, PlanOutdatedError, SparkFailedError
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.run import PlanResult
from lakewarden.model.table import Pointer
from lakewarden.pipeline.settled import seldom_collecting
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.guard import all_held
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.steps.deployment import Deployment, required
from lakewarden.steps.in_spark import in_spark
from lakewarden.steps.observe.fleet import pointer_of
from lakewarden.steps.observe.heartbeat import beating
from lakewarden.steps.plan.rows import group_rows

# Groups that are rewritten before the next commits are made, and the most that one commit names in its summary.
GROUPS_A_ROUND = 64
# While a run rests, it looks this often whether it may go on.
SECONDS_BETWEEN_LOOKS = 5.0


@dataclass(frozen=True)
class _Table:
    """A table in a round: its groups that are leased, and what they were found to be."""

    table: TablePlan
    pointer: Pointer
    groups: Sequence[GroupFiles]
    ready: Prepared = field(default_factory=lambda: Prepared(None))


class Run(TableRun):
    """One run of one compaction plan."""

    def __init__(self, claim: Claim, rows: pa.Table) -> None:
        super().__init__(claim)
        self._groups = _by_table(rows, {table.identifier: table for table in claim.plan.tables})
        self._left: dict[str, str] = {step["group"]: step["why"] for step in self.steps(GROUP_LEFT)}
        self._commits = list(self.steps(COMPACTED))
        self._done: dict[str, Mapping[str, Any]] = {name: step for step in self._commits for name in step["groups"]}
        self._leases = GroupLeases(self.deployment.leases, self.deployment.clock)
        # Groups that somebody else worked on when they were looked at, with who it was: looked at once more at the end.
        self._postponed: dict[str, str] = {}
        self._second_look = False
        self._turn = threading.Lock()  # batches of a journal have numbers

    @classmethod
    def prepare(cls, deployment: Deployment, result: PlanResult, lifted: Sequence[str]) -> Callable[[Claim], Self]:
        """The groups, read and checked against the plan's digests before the plan is claimed."""
        rows = group_rows(deployment.stores, result, result.plan.allowed(lifted))
        return partial(cls, rows=rows)

    def settle(self) -> None:
        settle_leftovers(self)
        for table in self.to_do() if self.claim.resumed else ():
            self.attempt(table, self._note_made)

    def _note_made(self, table: TablePlan) -> None:
        """Write down what this run has committed to a table before it crashed, and did not get to write down."""
        name = table.identifier
        if (pointer := pointer_of(self.deployment, name)) is not None:
            compactor = required(self.deployment.format_of(name).compactor, name)
            self._record_made(table, compactor.made(pointer[1], str(table.detail["branch"]), self.run_id))

    def _record_made(self, table: TablePlan, made: Sequence[Landed]) -> None:
        for landed in made:
            if not self._done.keys() >= set(landed.groups):
                self._record(table, landed)

    def is_done(self, table: TablePlan) -> bool:
        return not self._open(table)

    def changed(self) -> Mapping[str, int]:
        return {
            "groups": len(self._done),
            "files": sum(int(step["files_removed"]) for step in self._commits),
        }

    def kept(self) -> Mapping[str, int]:
        return {"groups": len(self._left)} if self._left else {}

    def change(self, tables: Sequence[TablePlan]) -> None:
        """Round by round: take the groups' leases, rewrite them all in one Spark job, commit table by table."""
        total = sum(len(self._open(table)) for table in tables)
        budget = budget_of(tables)
        while round_ := self._next_round(tables):
            if budget and self._spent >= budget:
                for table, groups in round_:
                    for group in groups:
                        self._leave(table, group.name, f"max_bytes_per_run is {budget}, and that much was rewritten")
                continue
            self.check_may_go_on()
            with suppress(LakewardenError):
                # Workers that are surely gone keep nobody's snapshots any longer. Nothing here depends on it.
                self._leases.scavenge()
            began, spent = self.deployment.clock.boot(), self._spent
            self._round(round_)
            moved, worked = self._spent - spent, self.deployment.clock.boot() - began
            self._measured(moved, worked)
            left = sum(len(self._open(table)) for table in tables)
            self.claim.progress("rewrite groups", total - left, total)
            if left:
                self._rest(rest_after(worked, moved, share_of(tables), rate_of(tables)))

    @property
    def _spent(self) -> int:
        return sum(int(step["bytes_removed"]) for step in self._commits)

    def _measured(self, size: int, seconds: float) -> None:
        """Remember how fast this round was: the next plan says by it what its groups cost."""
        if size:
            detail = {"bytes": size, "seconds": round(seconds, 3)}
            self.deployment.ledger.runs.step(self.run_id, WORKED, detail)

    def _rest(self, seconds: float) -> None:
        """Leave the stores to others for so long."""
        until = self.deployment.clock.boot() + seconds
        while (left := until - self.deployment.clock.boot()) > 0:
            self.check_may_go_on()
            self.deployment.clock.sleep(min(left, SECONDS_BETWEEN_LOOKS))

    def _open(self, table: TablePlan) -> list[GroupFiles]:
        """The groups of a table that are neither rewritten nor left; those of one partition side by side.

        Each worker has an order of its own: workers that start together do not ask for the same partitions first.
        """
        every = self._groups.get(table.identifier, ())
        found = [group for group in every if group.name not in self._done and group.name not in self._left]
        turns = {place: _turn(self.deployment.worker, table.uuid, place) for place in {g.place for g in found}}
        return sorted(found, key=lambda group: (turns[group.place], group.name))

    def _next_round(self, tables: Sequence[TablePlan]) -> list[tuple[TablePlan, list[GroupFiles]]]:
        """Some groups of the first tables that have any left to do."""
        found: list[tuple[TablePlan, list[GroupFiles]]] = []
        room = GROUPS_A_ROUND
        for table in tables:
            if room and self.left_to_do(table.identifier):
                groups = [group for group in self._open(table) if group.name not in self._postponed][:room]
                if groups:
                    found.append((table, groups))
                    room -= len(groups)
        if not found and self._postponed:
            self._second_look = True
            self._postponed.clear()
            return self._next_round(tables)
        return found

    def _round(self, round_: Sequence[tuple[TablePlan, list[GroupFiles]]]) -> None:
        with seldom_collecting(), ExitStack() as stack:
            leases = RoundLeases(self._leases, stack)
            prepared: dict[str, _Table] = {}
            begun = self._begin(round_, stack, leases)
            self._side_by_side([one.table for one in begun.values()], partial(self._prepare, begun, prepared, leases))
            ready = {name: prepared[name] for name in begun if name in prepared}
            answers = dict(self._rewritten(ready, leases))
            leases.committing(answers)
            self._side_by_side([one.table for one in ready.values()], partial(self._commit, ready, answers, leases))
            leases.end(self._done, self._left)

    def _side_by_side(self, tables: Sequence[TablePlan], work: Callable[[TablePlan], None]) -> None:
        """Work on several tables at a time: each waits for its catalog and its store. Nothing is begun once one raises."""
        halted = threading.Event()

        def attempt(table: TablePlan) -> None:
            try:
                if not halted.is_set():
                    self.attempt(table, work)
            except BaseException:
                halted.set()
                raise

        with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
            try:
                for _ in pool.map(attempt, tables):
                    pass
            except BaseException:
                halted.set()  # also where a signal ends the wait of this thread
                raise

    def _begin(
        self, round_: Sequence[tuple[TablePlan, list[GroupFiles]]], stack: ExitStack, leases: RoundLeases
    ) -> dict[str, _Table]:
        """Lease the groups that nobody else works on. The tables that any is left of, with these."""
        looked_at: dict[str, _Table] = {}

        def look(table: TablePlan) -> None:
            name = table.identifier
            pointer = pointer_of(self.deployment, name)
            if pointer is None:
                raise PlanOutdatedError(f"{name} is gone; nothing of it was changed")
            looked_at[name] = _Table(table, pointer[1], groups_of[name])

        groups_of = {table.identifier: groups for table, groups in round_}
        self._side_by_side([table for table, _ in round_], look)
        found = {name: looked_at[name] for name in groups_of if name in looked_at}
        if not found:
            return {}
        # What is written and not yet committed is nobody's: orphan cleanup of any grace keeps off.
        writer = f"{self.deployment.worker}/{self.run_id}"
        ttl = max(int(one.table.policy["lease_ttl_seconds"]) for one in found.values())
        stack.enter_context(beating(self.deployment, writer, {name: self.roots_of(name) for name in found}, ttl))
        answers = leases.take([(one.table, one.groups) for one in found.values()])
        for (name, one), others in zip(list(found.items()), answers, strict=True):
            if isinstance(others, LakewardenError):
                self.failed(name, others)
                del found[name]
                continue
            for group, why in others.items():
                if self._second_look:
                    self._leave(one.table, group, why)
                else:
                    self._postponed[group] = why
            engine = str(one.table.detail.get("engine", ""))
            mine = [replace(group, engine=engine) for group in one.groups if group.name not in others]
            found[name] = replace(one, groups=mine)
        return {name: one for name, one in found.items() if one.groups}

    def _prepare(
        self, begun: Mapping[str, _Table], prepared: dict[str, _Table], leases: RoundLeases, table: TablePlan
    ) -> None:
        """Find out what the files of one table's groups are now."""
        name = table.identifier
        one = begun[name]
        found = self.deployment.format_of(name)
        self.check_lineage(found.load(one.pointer, self.plan.cutoff))
        compactor = required(found.compactor, name)
        ready = compactor.prepare(one.pointer, table.uuid, one.groups, int(table.detail["target_bytes"]), self.run_id)
        self._record_made(table, ready.made)
        for group_name, why in ready.dropped.items():
            self._leave(table, group_name, why)
        leases.begun(ready)
        if ready.orders or ready.by_engine:
            prepared[name] = replace(one, ready=ready)

    def _rewritten(self, prepared: Mapping[str, _Table], leases: RoundLeases) -> Iterator[tuple[str, str]]:
        """What each group's task answers; nothing where every lease was lost meanwhile, and the job was cancelled."""
        from lakewarden.jobs.compaction.plan import workers_of
        from lakewarden.pipeline.rewrite.files import ORDERS, rewrite_groups

        weights = {group.name: group.weight for one in prepared.values() for group in one.groups}
        orders = [
            {"group": group, "format": one.table.format, "order": text, "weight": weights[group]}
            for one in prepared.values()
            for group, text in one.ready.orders.items()
        ]
        workers, stores = workers_of(self.deployment), self.deployment.stores
        for some in waves(orders):
            # A freeze, a lost run and a signal stop it here, not only when the round is over.
            self.check_may_go_on()
            rows = pa.Table.from_pylist(some, schema=ORDERS)
            spark = self.deployment.warm_spark().result()
            try:
                yield from in_spark(partial(_answers, rewrite_groups, spark, rows, workers, stores, leases.in_vain))
            except SparkFailedError:
                if not leases.in_vain():
                    raise
                return
        for one in prepared.values():
            yield from self._by_engine(one.ready)

    def _by_engine(self, ready: Prepared) -> Iterator[tuple[str, str]]:
        """Groups of one table that the format's own engine writes, one after the other; the commit is ours all the same."""
        from lakewarden.pipeline.rewrite.by_iceberg import rewritten_by_iceberg

        if not ready.by_engine:
            return
        self.check_may_go_on()
        spark = self.deployment.warm_spark().result()
        found = in_spark(lambda: rewritten_by_iceberg(spark, ready.by_engine))
        yield from ((name, ready.by_engine[name].answer(one)) for name, one in found.items())

    def _commit(
        self, prepared: Mapping[str, _Table], answers: Mapping[str, str], leases: RoundLeases, table: TablePlan
    ) -> None:
        """One table's groups, in one commit. A group whose lease was lost is left out of it, and the others land."""
        name = table.identifier
        ready = prepared[name].ready
        compactor = required(self.deployment.format_of(name).compactor, name)
        for group in (*ready.orders, *ready.by_engine):
            if (lost := leases.lost(group)) is not None:
                self._leave(table, group, lost)
        mine = {
            group: answers[group]
            for group in (*ready.orders, *ready.by_engine)
            if group in answers and group not in self._left
        }
        if not mine:
            return
        held = {group: leases.of(group) for group in mine}
        landed = compactor.commit(
            prepared[name].pointer,
            ready,
            mine,
            {group: GroupLease(lease.key, lease.epoch) for group, lease in held.items()},
            self.lineage,
            int(self.now().timestamp() * 1000),
            partial(self._may_commit, list(held.values())),
        )
        self._record(table, landed)
        with self._turn:
            let_go(self, name, landed.unused)
        if landed.failed is not None:
            raise landed.failed

    def _may_commit(self, leases: Sequence[Lease]) -> None:
        self.check_may_go_on()
        all_held(leases)

    def _record(self, table: TablePlan, landed: Landed) -> None:
        if landed.groups:
            step = {
                "table": table.identifier,
                "snapshot": landed.snapshot,
                "groups": list(landed.groups),
                "files_removed": landed.files_removed,
                "files_added": landed.files_added,
                "bytes_removed": landed.bytes_removed,
                "bytes_added": landed.bytes_added,
                "ways": dict(landed.ways),
            }
            self.deployment.ledger.runs.step(self.run_id, COMPACTED, step)
            self._commits.append(step)
            self._done.update(dict.fromkeys(landed.groups, step))
        for group, why in landed.dropped.items():
            self._leave(table, group, why)

    def _leave(self, table: TablePlan, group: str, why: str) -> None:
        self._left[group] = why
        detail = {"table": table.identifier, "group": group, "why": why}
        self.deployment.ledger.runs.step(self.run_id, GROUP_LEFT, detail)


def _answers(rewrite: Callable[..., Iterator[tuple[str, str]]], *given: Any) -> list[tuple[str, str]]:
    return list(rewrite(*given))


def may_go_on(deployment: Deployment, runs: Sequence[str], plan: Plan) -> bool:
    """Whether the command that made these runs may apply one more plan: it changes something, within `max_bytes_per_run`."""
    tables = [table for table in plan.tables if any(table.changes.values())]
    steps = (step for run in runs for step in deployment.ledger.runs.steps(run) if step.name == COMPACTED)
    spent = sum(int(step.detail["bytes_removed"]) for step in steps)
    asked = sum(int(table.detail["compaction"]["bytes"]) for table in tables)
    budget = budget_of(tables)
    return bool(tables) and (not budget or spent + asked <= budget)


def _by_table(rows: pa.Table, tables: Mapping[str, TablePlan]) -> dict[str, list[GroupFiles]]:
    """The plan's groups, by table, in the order of their names, each on its table's branch."""
    found: dict[str, list[GroupFiles]] = {}
    several = [("uri", "list"), ("size", "sum"), ("reason", "min")]
    grouped = rows.group_by(["table", "group", "partition"]).aggregate(several)
    for row in grouped.sort_by([("table", "ascending"), ("group", "ascending")]).to_pylist():
        table = tables[row["table"]]
        branch = table.detail["branch"]
        planned_from = next((r.snapshot_id for r in table.refs if (r.kind, r.name) == ("branch", branch)), None)
        paths = tuple(sorted(row["uri_list"]))
        group = GroupFiles(
            row["group"],
            paths,
            branch,
            row["partition"],
            row["size_sum"],
            row["reason_min"],
            planned_from=planned_from,
        )
        found.setdefault(row["table"], []).append(group)
    return found


def _turn(worker: str, table_uuid: str, place: str) -> str:
    """When a worker's turn comes to a partition: random, and the same every time."""
    return hashlib.sha256(f"{worker}\n{table_uuid}\n{place}".encode()).hexdigest()
