"""Apply a plan that drops partitions: one commit a batch, each under a number of its own, so that none is made twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from lakewarden.model.brakes import DropSight, braked_since, drop_brakes
from lakewarden.model.errors import PlanOutdatedError
from lakewarden.model.partitions import Drop, Extent, PartitionFiles
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import PartitionPolicy
from lakewarden.model.run import FailedFile
from lakewarden.model.table import Holder, TableState
from lakewarden.model.verdict import Brake
from lakewarden.pipeline.read.notes import note_refusal
from lakewarden.pipeline.read.partitions import by_table, partitions_here
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.steps.compare.compare import read_task
from lakewarden.steps.deployment import required
from lakewarden.steps.observe.fleet import load_states, pointer_of

DROPPED = "dropped"


class Run(TableRun):
    """One run of one partition plan."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim)
        steps = self.steps(DROPPED)
        self._done: dict[tuple[str, int], int] = {(step["table"], step["batch"]): step["partitions"] for step in steps}
        self._kept = {(step["table"], partition) for step in steps for partition in step.get("kept", ())}

    def change(self, tables: Sequence[TablePlan]) -> None:
        """Table by table."""
        for place, table in enumerate(tables, start=1):
            self.attempt(table, self._table)
            self.claim.progress("drop partitions", place, len(tables))

    def changed(self) -> Mapping[str, int]:
        return {"partitions": sum(self._done.values())}

    def failures(self) -> list[FailedFile]:
        return [*super().failures(), *self._named()]

    def is_done(self, table: TablePlan) -> bool:
        return all((table.identifier, number) in self._done for number in range(len(table.detail["batches"])))

    def _named(self) -> Iterator[FailedFile]:
        """Every partition that was left alone, also by this run before a crash."""
        for table in self.planned:
            for line in table.detail["expire"]:
                if (table.identifier, line["partition"]) in self._kept:
                    uri = f"{table.identifier} {line['label']}"
                    yield FailedFile(uri, PlanOutdatedError.code, "it changed since the plan; it was kept")

    def _table(self, table: TablePlan) -> None:
        """Every batch of one table. Partitions that changed since the plan are left alone and remembered."""
        name = table.identifier
        with ExitStack() as stack:
            for prefix in self.roots_of(name):
                stack.enter_context(self.root_lease(prefix))
            found = pointer_of(self.deployment, name)
            if found is None:
                raise PlanOutdatedError(f"{name} is gone; nothing of it was changed")
            state = load_states([found], self.plan.cutoff)[0]
            if state.refusal is not None or state.uuid != table.uuid:
                why = state.refusal.message if state.refusal else "it was dropped and made again"
                raise PlanOutdatedError(f"{name} is not the planned table any more ({why}); nothing of it was changed")
            self.check_lineage(state)
            partitions = self._partitions(state, table)
            changed = self._changed(partitions, table)
            self._check_brakes(table, partitions, changed)
            expirer = required(self.deployment.format_of(name).partition_expirer, name)
            for number, batch in enumerate(_batches(table)):
                if (name, number) in self._done:
                    continue
                self.check_may_go_on()
                going = [line for line in batch if line["partition"] not in changed]
                now_ms = int(self.deployment.clock.now().timestamp() * 1000)
                made = expirer.drop(found[1], self._drop(name, number, going), now_ms) if going else None
                changed |= frozenset(made.get("kept", ()) if made else ())
                kept = [line["partition"] for line in batch if line["partition"] in changed]
                self._kept |= {(name, partition) for partition in kept}
                self._done[name, number] = made.get("partitions", len(going)) if made else 0
                counts = {"partitions": self._done[name, number], "kept": kept}
                detail = {"table": name, "batch": number, **(made or {}), **counts}
                self.deployment.ledger.runs.step(self.run_id, DROPPED, detail)

    def _drop(self, name: str, number: int, going: Sequence[Mapping[str, Any]]) -> Drop:
        keys = [bytes.fromhex(line["partition"]) for line in going]
        return Drop(
            tuple(keys),
            f"lakewarden-{self.run_id}",
            _identifier(self.run_id, name, number),
            self.lineage,
            {key: (line["files"], line["newest_ms"]) for key, line in zip(keys, going, strict=True)},
            may_empty=Brake.TABLE_EMPTIED in self._lifted(name),
        )

    def _lifted(self, name: str) -> frozenset[str]:
        """The brakes that an operator lifted for a table: those that the plan names it under.

        A table that others have emptied since is not what the operator of another table's brake has answered for.
        """
        found = {brake for brake in self.claim.lifted if name in self.plan.brakes.get(brake, ())}
        return frozenset(found | ({Brake.DROP_SHARE} if Brake.TABLE_EMPTIED in found else set()))

    def _check_brakes(self, table: TablePlan, partitions: Sequence[PartitionFiles], changed: frozenset[str]) -> None:
        """Raise if the table has lost so much since the plan that a brake is pulled, which was not before."""
        planned = {line["partition"] for line in table.detail["expire"]} - changed
        going = Extent.of(row for row in partitions if row.partition.hex() in planned)
        sight = DropSight(Extent.of(partitions), going, going, table.policy["max_drop_share"])
        for brake, message in drop_brakes(sight):
            if brake not in self._lifted(table.identifier):
                raise braked_since(table.identifier, brake, message)

    def _partitions(self, state: TableState, table: TablePlan) -> list[PartitionFiles]:
        """What the partitions of a table hold now."""
        policy = PartitionPolicy.of({**table.policy, "enabled": True})
        expirer = required(self.deployment.format_of(table.identifier).partition_expirer, table.identifier)
        holder = expirer.latest(state, policy)
        if not isinstance(holder, Holder):
            raise PlanOutdatedError(f"the partitions of {table.identifier} do not age any more; nothing was changed")
        lists = replace(state, manifest_lists=holder.manifest_lists, manifests=(), files=())
        rows, notes = by_table(
            partitions_here(
                ToRead.of([(0, lists)], {table.identifier: "name:"}),
                read_task(self.deployment),
                {0: expirer.commit_times(state)},
            )
        )
        if 0 in notes:
            raise PlanOutdatedError(note_refusal(notes[0]).message)
        return rows.get(0, [])

    def _changed(self, partitions: Sequence[PartitionFiles], table: TablePlan) -> frozenset[str]:
        """Planned partitions that hold other files now than when they were planned, unless this run dropped them."""
        now = {row.partition.hex(): (row.files, row.known_ms) for row in partitions}
        done = {n for name, n in self._done if name == table.identifier}
        settled = {line["partition"] for n, batch in enumerate(_batches(table)) if n in done for line in batch}
        return frozenset(
            line["partition"]
            for line in table.detail["expire"]
            if line["partition"] not in settled
            and now.get(line["partition"], (0, None))[0] > 0
            and now[line["partition"]] != (line["files"], line["newest_ms"])
        )


def _batches(table: TablePlan) -> Iterator[list[Mapping[str, Any]]]:
    lines = list(table.detail["expire"])
    for count in table.detail["batches"]:
        yield lines[:count]
        lines = lines[count:]


def _identifier(run_id: str, table: str, batch: int) -> int:
    """A number that no other commit of this user has, and that a repeated run finds again."""
    digest = hashlib.sha256(f"{run_id} {table} {batch}".encode()).digest()
    return int.from_bytes(digest[:7], "big")
