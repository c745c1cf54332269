"""Apply a plan of history: archive what the archive lacks, cut logs that are too long, sum up the months that are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakewarden.jobs.history.load_time import load_ms_of
from lakewarden.jobs.history.months import due_months
from lakewarden.ledger.connection import chunks
from lakewarden.model.errors import LakewardenError, PlanOutdatedError
from lakewarden.model.plan import TablePlan
from lakewarden.model.table import TableState
from lakewarden.pipeline.history.rows import HISTORY, to_arrow
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.steps.deployment import required
from lakewarden.steps.history.files import archive, damaged_files, take_back, unarchived
from lakewarden.steps.history.monthly import sum_up
from lakewarden.steps.observe.fleet import load_states, pointers_of

TABLES_AT_ONCE = 64
LOADS = 3  # before and after: one alone says more of the moment than of the table
ROWS_A_FILE = 50_000
BYTES_A_FILE = 64 << 20
TRIMMED_BY = "lakewarden.history.trimmed-by-run"
ARCHIVED, TRIMMED, SUMMED = "archived", "trimmed", "summed up"
LOST, FOUND = "archive file lost", "archive file found again"


class Run(TableRun):
    """One run of one plan of history."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim)
        self._done = {step["table"] for step in self.steps(ARCHIVED)}
        self._trimmed = {step["table"] for step in self.steps(TRIMMED)}
        self._months = sum(int(step["tables"]) for step in self.steps(SUMMED))
        self._waiting: list[tuple[TablePlan, pa.Table]] = []

    def is_done(self, table: TablePlan) -> bool:
        return table.identifier in self._done

    def changed(self) -> Mapping[str, int]:
        # By the files that this run entered, so that rows count that were entered just before a crash.
        rows = sum(file.rows for file in self.deployment.ledger.history.files() if file.run_id == self.run_id)
        counts = {"rows": rows, "months": self._months, "logs": len(self._trimmed)}
        return {kind: count for kind, count in counts.items() if count or kind == "rows"}

    def change(self, tables: Sequence[TablePlan]) -> None:
        """What the archive has lost, and what of that is there again, is noted first; then every table, then the months."""
        self._note_lost()
        self._note_found()
        pointers = pointers_of(self.deployment.formats.values())
        done = 0
        for several in chunks(tables, TABLES_AT_ONCE):
            there = [pointers[table.identifier] for table in several if table.identifier in pointers]
            states = {state.identifier: state for state in load_states(there, self.plan.cutoff)}
            for table in several:
                self.attempt(table, partial(self._gather, states.get(table.identifier)))
                done += 1
                self.claim.progress("archive", done, len(tables))
        self._flush()
        self._sum_up()

    def _note_lost(self) -> None:
        known = self.deployment.ledger.history.files()
        planned = [file for file in known if file.uri in self.plan.detail.get("lost", {}) and file.lost is None]
        for file, why in damaged_files(self.deployment, planned):
            gone = self.deployment.ledger.history.lose(file.uri, why)
            self.log.error("archive file lost", uri=file.uri, rows=gone, why=why)
            self.deployment.ledger.runs.step(self.run_id, LOST, {"file": file.uri, "why": why, "rows": gone})

    def _note_found(self) -> None:
        """What expired meanwhile is in no table any more: without its file it would be in no answer for ever."""
        for file in self.deployment.ledger.history.files():
            if file.lost is None or file.uri not in self.plan.detail.get("found", ()):
                continue
            if (rows := take_back(self.deployment, file)) is not None:
                self.log.info("archive file found again", uri=file.uri, rows=rows)
                self.deployment.ledger.runs.step(self.run_id, FOUND, {"file": file.uri, "rows": rows})

    def _gather(self, state: TableState | None, table: TablePlan) -> None:
        """Keep a table's rows until there are enough for a file; its log is cut when they are archived."""
        if state is None or state.uuid != table.uuid:
            raise PlanOutdatedError(f"{table.identifier} is gone, or was dropped and made again; nothing was archived")
        if state.refusal is not None and not state.is_visible:
            raise LakewardenError(state.refusal.message, code=state.refusal.code, hint=state.refusal.hint)
        historian = required(self.deployment.format_of(table.identifier).historian, table.identifier)
        self._waiting.append((table, unarchived(self.deployment, to_arrow(state, historian.rows(state)))))
        if (
            sum(rows.num_rows for _, rows in self._waiting) >= ROWS_A_FILE
            or sum(rows.nbytes for _, rows in self._waiting) >= BYTES_A_FILE
        ):
            self._flush()

    def _flush(self) -> None:
        """Archive what waits, and note that its tables are done."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self.check_may_go_on()
        rows = pa.concat_tables([HISTORY.empty_table(), *(rows for _, rows in waiting)])
        archive(self.deployment, self.run_id, rows)
        for table, found in waiting:
            if "logs" in table.changes:
                self.attempt(table, self._trim)
            if self.left_to_do(table.identifier):
                detail = {"table": table.identifier, "rows": found.num_rows}
                self.deployment.ledger.runs.step(self.run_id, ARCHIVED, detail)
                self._done.add(table.identifier)

    def _trim(self, table: TablePlan) -> None:
        name = table.identifier
        historian = required(self.deployment.format_of(name).historian, name)
        keep = int(table.policy["metadata_previous_versions_max"])
        # A commit of properties makes no snapshot that could say who made it: the table's properties say which run did.
        load_ms = load_ms_of(self.deployment, name, LOADS)
        after = historian.trim(name, table.uuid, keep, {TRIMMED_BY: self.run_id})
        if after is None:
            return
        detail = {
            "table": name,
            "before": {**table.detail["metadata"], "load_ms": load_ms},
            "after": {
                "bytes": after.bytes,
                "logged": after.logged,
                "load_ms": self._load_ms(name),
            },
        }
        self.deployment.ledger.runs.step(self.run_id, TRIMMED, detail)
        self._trimmed.add(name)

    def _load_ms(self, name: str) -> float | None:
        """After the commit; None if it could not be measured: the log is cut all the same, and that goes on record."""
        try:
            return load_ms_of(self.deployment, name, LOADS)
        except LakewardenError:
            return None

    def _sum_up(self) -> None:
        """Every month that is over and has other snapshots in the archive than in its summary."""
        due = due_months(self.deployment.ledger, {}, self.now())
        if not due:
            return
        self.check_may_go_on()
        self.claim.progress("sum up months", 0, len(due))
        for month in sum_up(self.deployment, sorted(due)):
            self.deployment.ledger.history.set_month(month)
            tables = len(due[month.month])
            detail = {"month": month.month, "tables": tables, "snapshots": month.snapshots, "file": month.uri}
            self.deployment.ledger.runs.step(self.run_id, SUMMED, detail)
            self._months += tables
        self.claim.progress("sum up months", len(due), len(due))
