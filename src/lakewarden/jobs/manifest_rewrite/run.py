"""Apply a plan that rewrites manifests: spec by spec, each in one commit that is checked before anybody sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from lakewarden.ledger.lease import Lease
from lakewarden.model.errors import CommitConflictError, PlanOutdatedError
from lakewarden.model.plan import TablePlan
from lakewarden.model.table import Pointer
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.guard import all_held
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.steps.deployment import required
from lakewarden.steps.observe.fleet import load_states, pointer_of

if TYPE_CHECKING:
    from lakewarden.pipeline.spark.session import SparkSession

TRIES = 3
CLUSTERED = "clustered"


class Run(TableRun):
    """One run of one manifest plan."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim)
        steps = self.steps(CLUSTERED)
        self._done: dict[tuple[str, int], int] = {(step["table"], step["spec"]): step["manifests"] for step in steps}

    def change(self, tables: Sequence[TablePlan]) -> None:
        """Table by table."""
        if not tables:
            return
        spark = self._spark(tables)
        for place, table in enumerate(tables, start=1):
            self.attempt(table, partial(self._table, spark))
            self.claim.progress("rewrite manifests", place, len(tables))

    def changed(self) -> Mapping[str, int]:
        return {"manifests": sum(self._done.values())}

    def is_done(self, table: TablePlan) -> bool:
        return all((table.identifier, spec) in self._done for spec in _specs(table))

    def _spark(self, tables: Sequence[TablePlan]) -> SparkSession:
        """A session with Iceberg's runtime. Raises SparkFailedError if there is none: a stop, no table's failure."""
        from lakewarden.pipeline.rewrite.manifests import check_runtime

        spark = self.deployment.warm_spark(packages_for(table.metadata_location for table in tables)).result()
        check_runtime(spark._jvm)
        return spark

    def _table(self, spark: SparkSession, table: TablePlan) -> None:
        """Every spec of one table that the plan names."""
        name = table.identifier
        with ExitStack() as stack:
            leases = [stack.enter_context(self.root_lease(prefix)) for prefix in self.roots_of(name)]
            found = pointer_of(self.deployment, name)
            if found is None:
                raise PlanOutdatedError(f"{name} is gone; nothing of it was changed")
            state = load_states([found], self.plan.cutoff)[0]
            if state.refusal is not None or state.uuid != table.uuid:
                why = state.refusal.message if state.refusal else "it was dropped and made again"
                raise PlanOutdatedError(f"{name} is not the planned table any more ({why}); nothing of it was changed")
            self.check_lineage(state)
            for spec in _specs(table):
                if (name, spec) in self._done:
                    continue
                made = self._spec(spark, table, found[1], spec, [self.lease, *leases])
                self._done[name, spec] = int(made.get("manifests", 0))
                detail = {**made, "table": name, "spec": spec, "manifests": self._done[name, spec]}
                self.deployment.ledger.runs.step(self.run_id, CLUSTERED, detail)

    def _spec(
        self, spark: SparkSession, table: TablePlan, pointer: Pointer, spec: int, leases: Sequence[Lease]
    ) -> Mapping[str, Any]:
        """One spec, on the table as it is now; again on the next one if another writer was quicker."""
        from lakewarden.pipeline.rewrite.manifests import rewrite_manifests

        rewriter = required(self.deployment.format_of(table.identifier).manifest_rewriter, table.identifier)
        commit = f"lakewarden-{self.run_id}/{table.identifier}/{spec}"
        properties = {**self.lineage, "lakewarden.commit": commit}

        def rewrite() -> Mapping[str, Any]:
            self.check_may_go_on()
            all_held(leases)
            opened = rewriter.open(pointer, table.uuid)
            if commit in opened.commits:
                return opened.commits[commit]  # made by this run, which then crashed
            snapshot = rewrite_manifests(spark, opened, spec, properties)
            if snapshot is None:
                return {}
            # Rewriting may have taken a while: a worker that was given up meanwhile must not commit.
            all_held(leases)
            return rewriter.commit(opened, snapshot)

        overtaken = retry_if_exception_type(CommitConflictError)
        return Retrying(retry=overtaken, stop=stop_after_attempt(TRIES), reraise=True)(rewrite)


def packages_for(locations: Iterable[str]) -> tuple[str, ...]:
    """The jars that rewriting tables at these addresses needs."""
    from lakewarden.pipeline.rewrite import manifests

    return manifests.packages_for(locations)


def _specs(table: TablePlan) -> Iterator[int]:
    yield from (int(one["spec"]) for one in table.detail["specs"])
