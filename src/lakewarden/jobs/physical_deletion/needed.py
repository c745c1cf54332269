"""Which released files something needs again: by hashes on every worker, or where there are too many, by a join in Spark.

Those begin to wait anew: when what needs them goes too, its readers have the whole delay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.model.errors import LakewardenError
from lakewarden.model.plan import Tally
from lakewarden.model.roots import Root
from lakewarden.model.table import TableState
from lakewarden.model.verdict import Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.holders import Holdings
from lakewarden.pipeline.compare.plan_files import PartTask, notes_facts
from lakewarden.pipeline.read.manifests import ReadTask
from lakewarden.pipeline.read.names import match_keys
from lakewarden.steps.compare.findings import Findings, gather
from lakewarden.steps.compare.sweep import part_task_of, read_task, release_rules, spark_failure
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet

if TYPE_CHECKING:
    from lakewarden.pipeline.compare.hash_holders import Settled
    from lakewarden.pipeline.spark.session import SparkSession


@dataclass(frozen=True)
class Comparison:
    """Released files that are due, as files of LISTED rows, of these tables; and the whole fleet that may need one."""

    deployment: Deployment
    fleet: Fleet
    parts: Sequence[str]
    tables: frozenset[str]
    directory: str

    def run(self, roots: Sequence[Root], chosen: frozenset[str], session: Future[SparkSession]) -> Findings:
        """Each released file: needed again by some table of the fleet, or free to go."""
        from lakewarden.pipeline.compare.hash_holders import settle

        holdings = self._holdings(enumerate(self.fleet.states))
        rules = release_rules(self.deployment, self.fleet, chosen)
        part = part_task_of(self.deployment, self.fleet, roots, rules, self.directory)
        try:
            spark, read = session.result(), read_task(self.deployment)
            if (settled := settle(spark, holdings, read)) is not None:
                return self._by_hashes(spark, holdings, settled, part, read)
            return self._by_join(spark, holdings, part, read)
        except LakewardenError:
            raise
        except Exception as error:
            raise spark_failure(error) from error

    def _by_hashes(
        self, spark: SparkSession, holdings: Holdings, settled: Settled, part: PartTask, read: ReadTask
    ) -> Findings:
        from lakewarden.pipeline.compare import by_hash as quick

        facts = quick.facts_of_files(spark, self.parts, settled.live, part, read)
        findings = gather(pa.concat_tables([facts, notes_facts(list(settled.notes))]), Verdict.PENDING, holdings.tables)
        for name in self.parts if _some_live(findings) else ():
            rows = pq.read_table(pa.BufferReader(self.deployment.stores.get(name)))
            keys = match_keys(rows[c.KEY].combine_chunks(), rows[c.ROOT].combine_chunks(), part.homes)
            self._let_wait_anew(rows[c.KEY].filter(pa.array(settled.live.has(keys))))
        counts = settled.live.counts(len(self.fleet.states))
        return replace(findings, missing={n: (int(count), "") for n, count in enumerate(counts) if count})

    def _by_join(self, spark: SparkSession, holdings: Holdings, part: PartTask, read: ReadTask) -> Findings:
        from lakewarden.pipeline.compare import by_join as sweep
        from lakewarden.pipeline.compare.join_holders import marks_of, needs

        listed = sweep.stored(spark, self.parts, c.LISTED, read)
        facts = sweep.facts(listed, marks_of(spark, holdings, read), part)
        findings = gather(facts, Verdict.PENDING, holdings.tables)
        if _some_live(findings):
            written = [self.directory + file.name for file in findings.parts]
            self._let_wait_anew(sweep.left_out(spark, self.parts, written, read))
        # Of a table whose files are in roots where nothing was released, the comparison has seen none.
        unseen = [(n, state) for n, state in enumerate(self.fleet.states) if self._unseen(n, state, findings)]
        if not unseen:
            return findings
        elsewhere = {n: (count, "") for n, count in needs(spark, self._holdings(unseen), read).items()}
        return replace(findings, missing={**findings.missing, **elsewhere})

    def _holdings(self, states: Iterable[tuple[int, TableState]]) -> Holdings:
        return Holdings.of(((n, state, state.held) for n, state in states), self.fleet.homes)

    def _unseen(self, number: int, state: TableState, findings: Findings) -> bool:
        """Whether files of a table may go while none was found that it needs."""
        live = findings.verdicts.get(number, {}).get(Verdict.LIVE, Tally())
        return state.identifier in self.tables and not live.files and number not in findings.missing

    def _let_wait_anew(self, uris: pa.ChunkedArray) -> None:
        self.deployment.ledger.pending.renew(uris.to_pylist(), self.deployment.clock.now())


def _some_live(findings: Findings) -> bool:
    return any(tallies.get(Verdict.LIVE, Tally()).files for tallies in findings.verdicts.values())
