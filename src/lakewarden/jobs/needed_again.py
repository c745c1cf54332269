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

from lakewarden.jobs.evidence import Evidence, gather
from lakewarden.jobs.fleet import Fleet
from lakewarden.jobs.rooms import Rooms
from lakewarden.jobs.sweeping import part_task_of, read_task, release_rules, spark_failure
from lakewarden.model.errors import LakewardenError
from lakewarden.model.plan import Tally
from lakewarden.model.roots import Root
from lakewarden.model.table import TableState
from lakewarden.model.verdict import Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.holdings import Holdings
from lakewarden.pipeline.names import match_keys
from lakewarden.pipeline.parts import PartTask, notes_facts
from lakewarden.pipeline.reading import ReadTask

if TYPE_CHECKING:
    from lakewarden.pipeline.session import SparkSession
    from lakewarden.pipeline.settling import Settled


@dataclass(frozen=True)
class Comparison:
    """Released files that are due, as files of LISTED rows, of these tables; and the whole fleet that may need one."""

    rooms: Rooms
    fleet: Fleet
    parts: Sequence[str]
    tables: frozenset[str]
    directory: str

    def run(self, roots: Sequence[Root], chosen: frozenset[str], session: Future[SparkSession]) -> Evidence:
        """Each released file: needed again by some table of the fleet, or free to go."""
        from lakewarden.pipeline.settling import settle

        holdings = self._holdings(enumerate(self.fleet.states))
        rules = release_rules(self.rooms, self.fleet, chosen)
        part = part_task_of(self.rooms, self.fleet, roots, rules, self.directory)
        try:
            spark, read = session.result(), read_task(self.rooms)
            if (settled := settle(spark, holdings, read)) is not None:
                return self._by_hashes(spark, holdings, settled, part, read)
            return self._by_join(spark, holdings, part, read)
        except LakewardenError:
            raise
        except Exception as error:
            raise spark_failure(error) from error

    def _by_hashes(
        self, spark: SparkSession, holdings: Holdings, settled: Settled, part: PartTask, read: ReadTask
    ) -> Evidence:
        from lakewarden.pipeline import quick

        facts = quick.facts_of_files(spark, self.parts, settled.live, part, read)
        evidence = gather(pa.concat_tables([facts, notes_facts(list(settled.notes))]), Verdict.PENDING, holdings.tables)
        for name in self.parts if _some_live(evidence) else ():
            rows = pq.read_table(pa.BufferReader(self.rooms.stores.get(name)))
            keys = match_keys(rows[c.KEY].combine_chunks(), rows[c.ROOT].combine_chunks(), part.homes)
            self._let_wait_anew(rows[c.KEY].filter(pa.array(settled.live.has(keys))))
        counts = settled.live.counts(len(self.fleet.states))
        return replace(evidence, missing={n: (int(count), "") for n, count in enumerate(counts) if count})

    def _by_join(self, spark: SparkSession, holdings: Holdings, part: PartTask, read: ReadTask) -> Evidence:
        from lakewarden.pipeline import sweep
        from lakewarden.pipeline.holding import marks_of, needs

        listed = sweep.stored(spark, self.parts, c.LISTED, read)
        facts = sweep.facts(listed, marks_of(spark, holdings, read), part)
        evidence = gather(facts, Verdict.PENDING, holdings.tables)
        if _some_live(evidence):
            written = [self.directory + file.name for file in evidence.parts]
            self._let_wait_anew(sweep.left_out(spark, self.parts, written, read))
        # Of a table whose files are in roots where nothing was released, the comparison has seen none.
        unseen = [(n, state) for n, state in enumerate(self.fleet.states) if self._unseen(n, state, evidence)]
        if not unseen:
            return evidence
        elsewhere = {n: (count, "") for n, count in needs(spark, self._holdings(unseen), read).items()}
        return replace(evidence, missing={**evidence.missing, **elsewhere})

    def _holdings(self, states: Iterable[tuple[int, TableState]]) -> Holdings:
        return Holdings.of(((n, state, state.held) for n, state in states), self.fleet.homes)

    def _unseen(self, number: int, state: TableState, evidence: Evidence) -> bool:
        """Whether files of a table may go while none was found that it needs."""
        live = evidence.verdicts.get(number, {}).get(Verdict.LIVE, Tally())
        return state.identifier in self.tables and not live.files and number not in evidence.missing

    def _let_wait_anew(self, uris: pa.ChunkedArray) -> None:
        self.rooms.ledger.pending.renew(uris.to_pylist(), self.rooms.clock.now())


def _some_live(evidence: Evidence) -> bool:
    return any(tallies.get(Verdict.LIVE, Tally()).files for tallies in evidence.verdicts.values())
