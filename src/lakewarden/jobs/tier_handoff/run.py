"""Apply a plan that hands snapshots to the cold tier: copy, verify, record, then describe the table at its new place.

The hot files are only read. Each verified copy is in the ledger before the next batch, so a run that dies goes on where
it stopped, and what a failed table has copied already is not copied again by the next plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.jobs.tier_handoff.aged_out import archived
from lakewarden.jobs.tier_handoff.cold_place import HINT, ColdPlace, address_taken, cold_place, metadata_uri, taken
from lakewarden.jobs.tier_handoff.copy import PHASES, Mover
from lakewarden.ledger.cold import ColdFile, ColdSnapshot
from lakewarden.model.errors import LakewardenError, PlanOutdatedError, StoreUnavailableError
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import TablePlan
from lakewarden.model.tiers import HandoffPolicy, Move, MovedTable, cold_uuid
from lakewarden.model.uri import FileUri, canonical
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.steps.apply.bandwidth import Bandwidth
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.steps.deployment import required
from lakewarden.steps.plan.rows import of_tables, rows_of
from lakewarden.storage.copying import put_in_class, sizes_at

HANDED = "handed"
BATCH = 500
RECORDED_AT_ONCE = 50
TRIES = 5
Row = Mapping[str, Any]


class Run(TableRun):
    """One run of one handover plan."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim)
        self._handed: dict[str, int] = {step["table"]: step["snapshots"] for step in self.steps(HANDED)}
        self._unheard: set[str] = set()
        self._taken: dict[str, Mapping[str, str]] = {}
        self._copied = sum(step.get("files", 0) for step in self.steps(HANDED))

    def is_done(self, table: TablePlan) -> bool:
        return table.identifier in self._handed

    def changed(self) -> Mapping[str, int]:
        # A process before this one may have made copies of tables that are not handed over yet.
        made = self.deployment.ledger.cold.count(self.run_id, (table.uuid for table in self.planned))
        return {"snapshots": sum(self._handed.values()), "files": max(self._copied, made)}

    def change(self, tables: Sequence[TablePlan]) -> None:
        """Files first, then the metadata that names them."""
        by_name = {table.identifier: table for table in tables}
        policies = {table.identifier: HandoffPolicy.of(table.policy) for table in tables}
        bandwidth = Bandwidth.strictest((p.megabytes_per_second for p in policies.values()), self.deployment.clock)
        movers = {table.identifier: self._mover(table, bandwidth) for table in tables}
        for table in tables:
            self._check(table, movers[table.identifier])
        total = sum(table.changes["files"] for table in tables)
        for kinds in PHASES:
            for rows in self._batches(kinds, list(movers)):
                self.check_may_go_on()
                name = rows[0]["table"]
                if self.left_to_do(name):
                    self._copy(by_name[name], movers[name], policies[name], rows)
                self.claim.progress("copy", self._copied, total)
        for table in tables:
            if self.left_to_do(table.identifier):
                self.attempt(table, lambda table: self._describe(table, movers[table.identifier]))

    def _mover(self, table: TablePlan, bandwidth: Bandwidth) -> Mover:
        relocator = required(self.deployment.format_of(table.identifier).relocator, table.identifier)
        move = Move(FileUri.parse(table.detail["location"]).as_prefix(), table.detail["cold"])

        def sizes(uris: Sequence[str]) -> Mapping[str, int]:
            copies = self.deployment.ledger.cold.copies(uris)
            return {file.uri: file.size for file in copies if file.cold_uri == canonical(move(file.uri))}

        return Mover(self.deployment, relocator, move, sizes, bandwidth)

    def _check(self, table: TablePlan, mover: Mover) -> None:
        """The table fails if its files could meet others at their cold addresses."""
        try:
            self._place_of(table, mover)
            self._taken[table.identifier] = taken(self.deployment.ledger, table.uuid, mover.move)
        except LakewardenError as error:
            self.failed(table.identifier, error)

    def _place_of(self, table: TablePlan, mover: Mover) -> ColdPlace:
        """What the cold directory holds. Raises LakewardenError, also if it keeps another location's paths by now."""
        directory = table.detail["cold"]
        place = cold_place(self.deployment.stores, self.deployment.ledger, mover.relocator, table.uuid, directory)
        if place.location is not None and FileUri.parse(place.location).as_prefix() != mover.move.source:
            raise PlanOutdatedError(
                f"{directory} has files of {place.location} by now, where the plan knew {mover.move.source}; "
                "nothing was handed over"
            )
        return place

    def _batches(self, kinds: Sequence[Kind], names: Sequence[str]) -> Iterator[list[Row]]:
        """Rows of these kinds, some at a time, each time of one table."""
        for part in rows_of(self.deployment.stores, self.claim.result):
            rows = of_tables(part, names)
            rows = rows.filter(pc.is_in(rows[c.KIND], pa.array([str(kind) for kind in kinds])))
            for name in pc.unique(rows["table"]).to_pylist():
                mine = rows.filter(pc.equal(rows["table"], name))
                for start in range(0, mine.num_rows, BATCH):
                    yield mine.slice(start, BATCH).to_pylist()

    def _copy(self, table: TablePlan, mover: Mover, policy: HandoffPolicy, rows: Sequence[Row]) -> None:
        """Copy what is not there yet, and record each copy; the first failure stops this table."""
        there = self._still_there(mover, mover.sizes([row["uri"] for row in rows]))
        self._copied += len(there)
        done: list[ColdFile] = []

        def one(row: Row) -> ColdFile:
            target = mover.move(row["uri"])
            if (holder := self._taken[table.identifier].get(canonical(target))) is not None:
                raise address_taken(row["uri"], target, holder)
            copied = mover.file(row["uri"], row[c.KIND], row[c.SIZE])
            self._place(target, row, policy)
            now = self.deployment.clock.now()
            return ColdFile(
                row["uri"], canonical(target), table.uuid, self.run_id, copied.size, copied.sha256, now
            )  # fmt: skip

        with ThreadPoolExecutor(policy.concurrency) as pool:
            for future in as_completed([pool.submit(one, row) for row in rows if row["uri"] not in there]):
                try:
                    done.append(future.result())
                    self._copied += 1
                except LakewardenError as error:
                    if self.left_to_do(table.identifier):
                        self.failed(table.identifier, error)
                if len(done) >= RECORDED_AT_ONCE:
                    self.deployment.ledger.cold.add(done)
                    done = []
        self.deployment.ledger.cold.add(done)

    def _still_there(self, mover: Mover, recorded: Mapping[str, int]) -> frozenset[str]:
        """Those of the recorded copies that are there with their size: another's rule may have taken one."""
        found = sizes_at(self.deployment.stores, [mover.move(uri) for uri in recorded])
        return frozenset(uri for uri, size in zip(recorded, found, strict=True) if size == recorded[uri])

    def _place(self, target: str, row: Row, policy: HandoffPolicy) -> None:
        """Class and tags of a verified copy. Metadata stays in the default class: the cold table must open at once."""
        live = row["verdict"] == Verdict.LIVE
        wanted = policy.class_for(live=live) if row[c.KIND] in (Kind.DATA, Kind.DELETE) else None
        got = put_in_class(self.deployment.stores, target, wanted, dict(policy.tags))
        if wanted and wanted != (got or "STANDARD") and wanted not in self._unheard:
            self._unheard.add(wanted)
            self.log.warning("the store did not take the storage class", wanted=wanted, has=got, uri=target)

    def _describe(self, table: TablePlan, mover: Mover) -> None:
        """Write the cold table's metadata with these snapshots added, and only then enter them as handed over."""
        name, directory = table.identifier, table.detail["cold"]
        ids = tuple(int(line["snapshot_id"]) for line in table.detail["snapshots"])
        # Another run may hand over other snapshots of the table: neither may leave out the other's.
        with self.deployment.leases.acquire(f"cold/{canonical(directory)}", MARGINS.lease_seconds):
            metadata = self._write_metadata(table, mover, ids)
            now = self.deployment.clock.now()
            self.deployment.ledger.cold.add_snapshots(
                ColdSnapshot(table.uuid, number, name, directory, metadata, self.run_id, now) for number in ids
            )
        self._handed[name] = len(ids)
        counts = {"snapshots": len(ids), "files": table.changes["files"]}
        detail = {"table": name, **counts, "metadata": metadata, "class_ignored": sorted(self._unheard)}
        self.deployment.ledger.runs.step(self.run_id, HANDED, detail)

    def _write_metadata(self, table: TablePlan, mover: Mover, ids: Sequence[int]) -> str:
        directory, stores = table.detail["cold"], self.deployment.stores
        wanted = {line["archive"] for line in table.detail["snapshots"]}
        sources = [
            (archive.uri, archived(self.deployment, archive), [n for n in archive.snapshots if n in ids])
            for archive in self.deployment.ledger.archives.of(table.uuid)
            if archive.uri in wanted
        ]
        aged = [s for uri, data, numbers in sources for s in mover.relocator.aged(data, uri, numbers)[1]]
        statistics = [canonical(uri) for snapshot in aged for uri in snapshot.statistics]
        described = MovedTable(
            uuid=cold_uuid(directory, table.uuid),
            snapshots=tuple(ids),
            move=mover.move,
            statistics=frozenset(mover.sizes(statistics)),
            read_only=True,
            origin={"table": table.identifier, "table-uuid": table.uuid, "location": mover.move.source},
        )
        # What is there is asked each time: a version that another ledger's run wrote must not be left out either.
        for _ in range(TRIES):
            place = self._place_of(table, mover)
            previous, version = (None, 1) if (now := place.metadata) is None else (now.data, now.version + 1)
            document = mover.relocator.document([data for _, data, _ in sources], previous, described)
            written = metadata_uri(directory, version)
            if not stores.create(written, document):
                continue
            if stores.get(written) != document:
                raise StoreUnavailableError(f"{written} does not read as it was written; nothing was handed over")
            stores.put(f"{directory}{HINT}", str(version).encode())
            return written
        raise StoreUnavailableError(f"others write to {directory} all the time; nothing was handed over")
