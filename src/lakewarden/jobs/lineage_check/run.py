"""Apply a plan of lineage-check: put on record what it found. No table is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.model.plan import TablePlan
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.table_run import TableRun

CHECKED = "checked"


class Run(TableRun):
    """One run of one plan of lineage-check."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim)
        self._done: dict[str, int] = {step["table"]: step["violations"] for step in self.steps(CHECKED)}

    def change(self, tables: Sequence[TablePlan]) -> None:
        """Table by table; what the plan found is what happened, whatever the table is by now."""
        for place, table in enumerate(tables, start=1):
            self.check_may_go_on()
            detail = {"table": table.identifier, **table.detail}
            self.deployment.ledger.runs.step(self.run_id, CHECKED, detail)
            self._done[table.identifier] = int(table.detail["violations"])
            self.claim.progress("record", place, len(tables))

    def changed(self) -> Mapping[str, int]:
        return {"violations": sum(self._done.values())}

    def is_done(self, table: TablePlan) -> bool:
        return table.identifier in self._done
