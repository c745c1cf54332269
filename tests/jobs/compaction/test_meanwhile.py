"""Other writers at work between the rewriting and its commit: no row is lost, none comes back, and what can land does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.formats.iceberg.compaction import carried
from lakewarden.formats.iceberg.compaction import compactor as compacting
from lakewarden.formats.iceberg.compaction.compactor import IcebergRewriteWorker
from lakewarden.jobs.compaction import plan as planning
from lakewarden.jobs.compaction.round_leases import RoundLeases
from lakewarden.ledger.group_leases import group_key
from lakewarden.ledger.heartbeats import Heartbeats
from lakewarden.model.compaction import GroupFiles, GroupLease, Prepared
from lakewarden.model.errors import DoubtfulCommitError, LeaseLostError, StateBusyError
from lakewarden.model.run import RunResult
from lakewarden.model.table import Pointer
from lakewarden.pipeline.rewrite import files as rewriting
from lakewarden.steps.plan.files import load_plan
from lakewarden.steps.plan.rows import group_rows
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of
from tests.support.lakes import local_path
from tests.support.oracle_tables import delete_equal
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB, LAKE = "compaction", "crowded"
Act = Callable[[str], object]


@dataclass
class Crowd:
    site: Site
    spark: SparkSession
    monkeypatch: pytest.MonkeyPatch
    made: int = 0

    def table(self, by: str = "", version: int = 2) -> str:
        """Three files of each partition, ids 0 to 11."""
        self.made += 1
        name = f"{LAKE}.t.t{self.site.base.name[-1]}_{self.made}"
        self.spark.sql(
            f"CREATE TABLE {name} (id BIGINT, part STRING) USING iceberg {f'PARTITIONED BY ({by})' if by else ''} "
            f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read', "
            "'write.distribution-mode'='none')"
        )
        for first in (0, 4, 8):
            self.insert(name, first, first + 4)
        return name

    def insert(self, name: str, first: int, end: int) -> None:
        self.spark.sql(
            f"INSERT INTO {name} SELECT id, IF(id % 2 = 0, 'a', 'b') FROM range({first}, {end}, 1, 1) ORDER BY 2"
        )

    def ids(self, name: str, at: str = "") -> list[int]:
        self.spark.sql(f"REFRESH TABLE {name}")
        return sorted(row[0] for row in self.spark.sql(f"SELECT id FROM {name} {at}").collect())

    def files(self, name: str) -> int:
        return int(self.spark.sql(f"SELECT count(*) FROM {name}.data_files").collect()[0][0])

    def document(self, name: str) -> dict[str, Any]:
        return document_of(self.site.catalog(LAKE).load_table(name.removeprefix(f"{LAKE}.")))

    def compacted(self, name: str, meanwhile: Act | None = None) -> RunResult:
        """One plan and its run; `meanwhile` happens when the files are written and nothing is committed."""
        plan = self.site.plan(JOB, name)
        assert plan.table(name).changes["groups"]
        if meanwhile is None:
            return self.site.apply(plan)
        rewrite = rewriting.rewrite_groups

        def then(*given: Any) -> Iterator[tuple[str, str]]:
            found = list(rewrite(*given))
            meanwhile(name)
            yield from found

        with self.monkeypatch.context() as patched:
            patched.setattr(rewriting, "rewrite_groups", then)
            return self.site.apply(plan)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    base = tmp_path_factory.mktemp("crowded")
    properties = add_sqlite_catalog(spark, LAKE, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    with Site(base, {LAKE: properties}) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        yield site


_crowds = [0]


@pytest.fixture
def crowd(lake: Site, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    yield Crowd(lake, spark, monkeypatch, _crowds[0])
    _crowds[0] += 10


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_append_is_not_lost(crowd: Crowd, version: int) -> None:
    name = crowd.table(version=version)
    result = crowd.compacted(name, lambda table: crowd.insert(table, 100, 103))
    assert (result.status, result.changed) == ("done", {"groups": 1, "files": 3})
    assert crowd.ids(name) == [*range(12), 100, 101, 102]
    assert crowd.files(name) == 2


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_were_deleted_meanwhile_are_deleted_from_the_new_file(crowd: Crowd, version: int) -> None:
    """Twice from one file, where the first delete was applied and the second comes on top of it, and once from another."""
    name = crowd.table(by="part", version=version)
    crowd.spark.sql(f"DELETE FROM {name} WHERE id = 4")

    def meanwhile(table: str) -> None:
        crowd.spark.sql(f"DELETE FROM {table} WHERE id IN (6, 10)")
        crowd.spark.sql(f"DELETE FROM {table} WHERE id = 8")

    result = crowd.compacted(name, meanwhile)
    assert (result.changed, result.kept) == ({"groups": 2, "files": 6}, {})
    left = [i for i in range(12) if i not in (4, 6, 8, 10)]
    assert crowd.ids(name) == left
    assert crowd.files(name) == 2
    # Iceberg goes on with deletes that are not its own: one more on top of them, and the procedure that rewrites them.
    crowd.spark.sql(f"DELETE FROM {name} WHERE id = 2")
    assert crowd.ids(name) == [i for i in left if i != 2]
    crowd.spark.sql(
        f"CALL {LAKE}.system.rewrite_position_delete_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )
    assert crowd.ids(name) == [i for i in left if i != 2]


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_whose_deletes_cannot_be_carried_over_is_dropped_and_the_others_land(
    crowd: Crowd, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = crowd.table(by="part", version=version)
    with monkeypatch.context() as patched:
        patched.setattr(carried, "MOST_BYTES", 0)
        result = crowd.compacted(name, lambda table: crowd.spark.sql(f"DELETE FROM {table} WHERE id = 6"))
    assert result.changed == {"groups": 1, "files": 3}
    assert result.kept == {"groups": 1}
    assert crowd.ids(name) == [i for i in range(12) if i != 6]
    assert crowd.files(name) == 4
    # The next run takes up what this one had to leave.
    assert crowd.compacted(name).changed["groups"] == 1
    assert crowd.ids(name) == [i for i in range(12) if i != 6]


def data_on_disk(crowd: Crowd, name: str) -> set[str]:
    return {path.name for path in (local_path(crowd.document(name)["location"]) / "data").rglob("*.parquet")}


def test_files_that_were_written_for_nothing_go_at_once_and_are_in_the_journal(crowd: Crowd) -> None:
    name = crowd.table(by="part")
    before = data_on_disk(crowd, name)
    result = crowd.compacted(name, lambda table: crowd.spark.sql(f"ALTER TABLE {table} ADD COLUMN more INT"))
    assert [failed.code for failed in result.failed] == ["LW-TABLE-009"]
    assert data_on_disk(crowd, name) == before
    ledger = crowd.site.warden._deployment.ledger
    assert ledger.journal.done(result.run_id)["deleted"].files == 2
    assert not ledger.journal.open_batches(result.run_id)
    [step] = [step.detail for step in ledger.runs.steps(result.run_id) if step.name == "written for nothing"]
    assert (step["table"], step["files"], step["deleted"]) == (name, 2, 2)


def test_files_of_a_commit_that_nobody_vouches_for_stay(crowd: Crowd) -> None:
    name = crowd.table()
    before = data_on_disk(crowd, name)

    def unanswered(*_: Any) -> Any:
        raise DoubtfulCommitError("who knows whether it was made")

    with crowd.monkeypatch.context() as patched:
        patched.setattr(compacting, "replace_files", unanswered)
        with pytest.raises(DoubtfulCommitError):
            crowd.compacted(name)
    assert len(data_on_disk(crowd, name) - before) == 1


def test_a_group_whose_file_is_gone_is_dropped(crowd: Crowd) -> None:
    name = crowd.table(by="part")
    left = "SELECT id FROM {0} WHERE part = 'a' AND id > 6"
    overwrite = f"INSERT OVERWRITE {{0}} PARTITION (part='a') {left}"
    result = crowd.compacted(name, lambda table: crowd.spark.sql(overwrite.format(table)))
    assert result.changed["groups"] == 1
    assert crowd.ids(name) == sorted([8, 10, *range(1, 12, 2)])


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_by_value_that_came_meanwhile_still_deletes(crowd: Crowd, version: int) -> None:
    """Two of them, one before the files were read and one since: a row that either took does not come back."""
    name = crowd.table(version=version)
    delete_equal(crowd.spark, name, [3])
    result = crowd.compacted(name, lambda table: delete_equal(crowd.spark, table, [5]))
    assert result.changed == {"groups": 1, "files": 3}
    assert crowd.ids(name) == [i for i in range(12) if i not in (3, 5)]
    summary = crowd.document(name)["snapshots"][-1]["summary"]
    assert summary["removed-equality-delete-files"] == "1"


def test_a_row_that_was_written_again_after_its_delete_stays(crowd: Crowd) -> None:
    name = crowd.table()
    delete_equal(crowd.spark, name, [1])
    crowd.insert(name, 1, 2)
    assert crowd.compacted(name).status == "done"
    assert crowd.ids(name) == list(range(12))
    assert crowd.files(name) == 1


def test_a_delete_without_a_partition_reaches_files_of_every_spec(crowd: Crowd) -> None:
    name = crowd.table()
    delete_equal(crowd.spark, name, [2, 9])
    crowd.spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD part")
    crowd.insert(name, 20, 24)
    crowd.insert(name, 24, 28)
    before = crowd.ids(name)
    assert crowd.compacted(name).status == "done"
    assert crowd.ids(name) == before == [*(i for i in range(12) if i not in (2, 9)), *range(20, 28)]


@pytest.mark.parametrize(
    "change", ["ALTER TABLE {} ADD COLUMN more INT", "ALTER TABLE {} ADD PARTITION FIELD bucket(2, id)"]
)
def test_a_table_that_was_altered_meanwhile_is_left_as_it_is(crowd: Crowd, change: str) -> None:
    name = crowd.table()
    result = crowd.compacted(name, lambda table: crowd.spark.sql(change.format(table)))
    assert (result.status, [failed.code for failed in result.failed]) == ("failed", ["LW-TABLE-009"])
    assert crowd.ids(name) == list(range(12))
    assert crowd.files(name) == 3


def test_a_table_that_was_rolled_back_meanwhile_is_left_as_it_is(crowd: Crowd) -> None:
    name = crowd.table()
    first = crowd.document(name)["snapshots"][0]["snapshot-id"]
    call = f"CALL {LAKE}.system.rollback_to_snapshot('{name.removeprefix(LAKE + '.')}', {first})"
    result = crowd.compacted(name, lambda _: crowd.spark.sql(call))
    assert [failed.code for failed in result.failed] == ["LW-TABLE-009"]
    assert crowd.ids(name) == list(range(4))


@pytest.mark.parametrize("hours", [0, 25])
def test_a_run_that_died_after_its_commit_does_not_commit_again(crowd: Crowd, hours: int) -> None:
    """Taken up at once, or when its plan has expired: nothing of it is left to do, and it says so."""
    name = crowd.table()
    plan = crowd.site.plan(JOB, name)
    replace = compacting.replace_files

    def killed(*given: Any) -> Any:
        replace(*given)
        raise KeyboardInterrupt

    with crowd.monkeypatch.context() as patched:
        patched.setattr(compacting, "replace_files", killed)
        with pytest.raises(KeyboardInterrupt):
            crowd.site.apply(plan)
    snapshots = len(crowd.document(name)["snapshots"])
    crowd.site.close()
    crowd.site.later(hours)
    try:
        result = crowd.site.apply(plan)
    finally:
        crowd.site.later(-hours)
    # What the dead process did not get to write down is found in its commit.
    assert (result.status, result.changed, result.kept) == ("done", {"groups": 1, "files": 3}, {})
    assert len(crowd.document(name)["snapshots"]) == snapshots
    assert (crowd.ids(name), crowd.files(name)) == (list(range(12)), 1)


def test_orphan_cleanup_keeps_off_what_is_written_and_not_yet_committed(crowd: Crowd) -> None:
    name = crowd.table()
    kept = dict(crowd.site.sections["orphan_cleanup"])
    verdicts: list[str] = []

    def clean(table: str) -> None:
        crowd.site.sections["orphan_cleanup"]["grace_period_hours"] = 0
        warden = crowd.site.another()
        uuid = str(crowd.document(table)["table-uuid"])
        plan = warden.plan("orphans", select=[table], unsafe_short_grace=[uuid])
        verdicts.extend(row["verdict"] for row in warden.plan_rows(plan.path) if row["uri"].endswith("-00000.parquet"))
        crowd.site.sections["orphan_cleanup"] = kept

    assert crowd.compacted(name, clean).status == "done"
    assert verdicts == ["in_flight"]
    assert crowd.ids(name) == list(range(12))


def test_a_new_file_that_is_not_there_is_not_committed(crowd: Crowd) -> None:
    name = crowd.table()
    data = local_path(crowd.document(name)["location"]) / "data"
    before = set(data.rglob("*.parquet"))

    def lose(_: str) -> None:
        for path in set(data.rglob("*.parquet")) - before:
            path.unlink()

    result = crowd.compacted(name, lose)
    assert [failed.code for failed in result.failed] == ["LW-TABLE-009"]
    assert (crowd.ids(name), crowd.files(name)) == (list(range(12)), 3)


def test_a_group_that_somebody_else_works_on_is_left_to_them(crowd: Crowd) -> None:
    name = crowd.table(by="part")
    plan = crowd.site.plan(JOB, name)
    stores = crowd.site.warden._deployment.stores
    rows = group_rows(stores, load_plan(stores, plan.path), {name})
    taken = group_key(plan.table(name).uuid, GroupFiles("", (), partition=rows["partition"][0].as_py()).place)
    with crowd.site.another()._deployment.leases.acquire(taken, 60):
        result = crowd.site.apply(plan)
    assert (result.changed, result.kept) == ({"groups": 1, "files": 3}, {"groups": 1})
    assert crowd.ids(name) == list(range(12))
    told = [
        step for step in crowd.site.warden._deployment.ledger.runs.steps(result.run_id) if step.name == "group left"
    ]
    assert [step.detail["why"][:12] for step in told] == ["LW-LEASE-004"]


def test_a_group_whose_lease_was_taken_away_is_left_and_the_others_land(crowd: Crowd) -> None:
    name = crowd.table(by="part")
    rounds: list[RoundLeases] = []
    begun = RoundLeases.begun

    def noted(leases: RoundLeases, ready: Prepared) -> None:
        rounds.append(leases)
        begun(leases, ready)

    def take_away(_: str) -> None:
        held = [lease for lease in crowd.site.warden.leases() if lease["state"] == "held" and "work" in lease]
        assert sorted(lease["work"]["partition"] for lease in held) == ["part=a", "part=b"]
        assert {lease["work"]["start_snapshot"] for lease in held} == {crowd.document(name)["current-snapshot-id"]}
        key = held[0]["key"]
        crowd.site.another().release_lease(key, "for a test")
        with pytest.raises(LeaseLostError):  # which is what the holder hears at its next renewal
            rounds[0]._held[key].renew()

    crowd.monkeypatch.setattr(RoundLeases, "begun", noted)
    result = crowd.compacted(name, take_away)
    assert (result.changed, result.kept) == ({"groups": 1, "files": 3}, {"groups": 1})
    assert crowd.ids(name) == list(range(12))
    mine = [lease for lease in crowd.site.warden.leases() if crowd.document(name)["table-uuid"] in lease["key"]]
    assert sorted(lease["status"] for lease in mine) == ["completed", "released"]


def test_work_whose_leases_are_all_lost_is_cancelled(crowd: Crowd) -> None:
    """The Spark job ends long before its task would, nothing is committed, and the group is left for the next plan."""
    name = crowd.table()

    class Slow(IcebergRewriteWorker):
        def rewrite(self, order: str, stores: Any) -> str:
            time.sleep(300)
            return super().rewrite(order, stores)

    def take_away() -> None:
        warden = crowd.site.another()
        held: list[dict[str, Any]] = []
        while not held:
            time.sleep(0.2)
            active = [one for one in warden.leases() if one["status"] == "active" and "work" in one]
            held = [one for one in active if one["work"]["progress"] == "rewriting"]
        warden.release_lease(held[0]["key"], "for a test")

    kept = dict(crowd.site.sections["compaction"])
    crowd.site.sections["compaction"]["lease_ttl_seconds"] = 60
    crowd.monkeypatch.setattr(planning, "workers_of", lambda _: {"iceberg": Slow()})
    plan = crowd.site.plan(JOB, name)
    crowd.site.sections["compaction"] = kept
    operator = threading.Thread(target=take_away)
    began = time.monotonic()
    operator.start()
    result = crowd.site.apply(plan)
    operator.join()
    assert time.monotonic() - began < 120
    assert (result.changed, result.kept) == ({"groups": 0, "files": 0}, {"groups": 1})
    assert (crowd.ids(name), crowd.files(name)) == (list(range(12)), 3)


def test_directories_of_every_table_of_a_round_are_in_flight_while_it_lasts(crowd: Crowd) -> None:
    names = [crowd.table(), crowd.table()]
    ledger = crowd.site.another()._deployment.ledger
    seen: list[set[tuple[str, str]]] = []

    def look(*given: Any) -> Iterator[tuple[str, str]]:
        seen.append({(beat.table, beat.prefix) for beat in ledger.heartbeats.every()})
        yield from rewrite(*given)

    rewrite = rewriting.rewrite_groups
    plan = crowd.site.plan(JOB, *names)
    with crowd.monkeypatch.context() as patched:
        patched.setattr(rewriting, "rewrite_groups", look)
        assert crowd.site.apply(plan).status == "done"
    assert seen == [{(name, f"{crowd.document(name)['location']}/") for name in names}]
    assert ledger.heartbeats.every() == []


def test_where_it_cannot_be_said_that_directories_are_in_flight_nothing_is_written(crowd: Crowd) -> None:
    names = [crowd.table(), crowd.table()]

    def locked(*_: Any) -> Any:
        raise StateBusyError("the database is locked")

    plan = crowd.site.plan(JOB, *names)
    with crowd.monkeypatch.context() as patched:
        patched.setattr(Heartbeats, "beat_all", locked)
        with pytest.raises(StateBusyError):
            crowd.site.apply(plan)
    for name in names:
        assert (crowd.ids(name), crowd.files(name)) == (list(range(12)), 3)
        data = Path(local_path(crowd.document(name)["location"])) / "data"
        assert len(list(data.rglob("*.parquet"))) == 3, "nothing was written"


def test_expiry_leaves_the_snapshot_that_files_are_rewritten_from(crowd: Crowd) -> None:
    """By the lease alone: the heartbeat is gone, as it is where another deployment's database is asked."""
    name = crowd.table()
    start = crowd.document(name)["current-snapshot-id"]
    went: list[int] = []

    def expire(table: str) -> None:
        other = crowd.site.another()
        ledger = other._deployment.ledger
        for beat in ledger.heartbeats.live(other._deployment.clock.now()):
            ledger.heartbeats.end(beat)
        crowd.insert(table, 100, 101)
        kept = dict(crowd.site.sections.get("snapshot_expiry", {}))
        crowd.site.sections["snapshot_expiry"] = {**kept, "retain_hours": 0, "retain_min": 1}
        plan = crowd.site.another().plan("snapshot-expiry", select=[table])
        crowd.site.sections["snapshot_expiry"] = kept
        went.extend(found.changes["snapshots"] for found in plan.plan.tables if found.identifier == table)
        crowd.site.another().apply(plan.path)

    result = crowd.compacted(name, expire)
    assert went == [2]
    assert (result.status, result.changed["groups"]) == ("done", 1)
    assert start in [snapshot["snapshot-id"] for snapshot in crowd.document(name)["snapshots"]]
    assert crowd.ids(name) == [*range(12), 100]


def test_a_worker_that_was_given_up_does_not_commit(crowd: Crowd) -> None:
    """A later holder of the group's lease has committed: whatever this one rewrote is not taken."""
    name = crowd.table()
    compactor = crowd.site.warden._deployment.formats[LAKE].compactor
    assert compactor is not None
    document = crowd.document(name)
    head = document["snapshots"][-1]
    paths = tuple(row[0] for row in crowd.spark.sql(f"SELECT file_path FROM {name}.data_files").collect())
    pointer = Pointer(name, "")
    ready = compactor.prepare(pointer, document["table-uuid"], [GroupFiles("g", paths)], 1 << 29, "mine")
    answers = {g: compactor.worker.rewrite(o, crowd.site.warden._deployment.stores) for g, o in ready.orders.items()}
    # Another worker commits something else under the same lease, one epoch on.
    crowd.spark.conf.set("spark.sql.iceberg.snapshot-property.lakewarden.lease-key", "k")
    crowd.spark.conf.set("spark.sql.iceberg.snapshot-property.lakewarden.lease-epoch", "8")
    try:
        crowd.insert(name, 50, 52)
    finally:
        crowd.spark.conf.unset("spark.sql.iceberg.snapshot-property.lakewarden.lease-key")
        crowd.spark.conf.unset("spark.sql.iceberg.snapshot-property.lakewarden.lease-epoch")
    landed = compactor.commit(
        pointer, ready, answers, {"g": GroupLease("k", 7)}, {"lakewarden.run": "mine"}, head["timestamp-ms"], lambda: None
    )  # fmt: skip
    assert isinstance(landed.failed, LeaseLostError)
    assert "epoch 8" in landed.failed.message
    assert crowd.ids(name) == [*range(12), 50, 51]
