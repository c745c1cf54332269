"""Paimon append tables by plan and apply: the same rows to Java and to pypaimon, and their own jobs go on afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory, Schema

from lakewarden.formats.paimon.metadata.read import read_table
from lakewarden.formats.paimon.metadata.state import table_uuid
from lakewarden.model.run import RunResult
from lakewarden.pipeline.rewrite import files as rewriting
from lakewarden.storage.stores import Stores
from tests.formats.paimon import java
from tests.formats.paimon.site import Site
from tests.support.deployments import Seen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "compaction"
COLUMNS = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("v", pa.string())])
VECTORS = {"deletion-vectors.enabled": "true"}
TABLES: dict[str, dict[str, str]] = {
    "plain": {},
    "vectors": VECTORS,
    "wide_vectors": {**VECTORS, "deletion-vectors.bitmap64": "true"},
    "tracked": {"row-tracking.enabled": "true"},
    "tracked_vectors": {"row-tracking.enabled": "true", **VECTORS},
    "buckets": {"bucket": "2", "bucket-key": "id", "bucket-append-ordered": "false", "write-only": "true"},
    "ordered": {"bucket": "1", "bucket-key": "id", "write-only": "true"},
    "beside": {**VECTORS, "index-file-in-data-file-dir": "true", "data-file.path-directory": "rows/here"},
    "named": {"data-file.prefix": "part-", "file.suffix.include.compression": "true", "file.compression": "snappy"},
}
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "orc_files": ({"file.format": "orc"}, "file.format=orc"),
    "busy_buckets": ({"bucket": "1", "bucket-key": "id", "bucket-append-ordered": "false"}, "write-only"),
    "evolving": ({"row-tracking.enabled": "true", "data-evolution.enabled": "true"}, "data-evolution"),
    "indexed": ({"file-index.bloom-filter.columns": "id"}, "file-index.bloom-filter.columns"),
    "clustered": ({"clustering.columns": "id"}, "clustering.columns"),
}


def create(base: Path, name: str, options: dict[str, str], keys: tuple[str, ...] = ()) -> Path:
    catalog = CatalogFactory.create({"warehouse": f"file://{base}/lake"})
    catalog.create_database("db", True)
    schema = Schema.from_pyarrow_schema(
        COLUMNS,
        partition_keys=["dt"],
        primary_keys=list(keys) or None,
        options={"bucket": "-1", **options},
    )
    catalog.create_table(f"db.{name}", schema, False)
    return base / "lake" / "db.db" / name


def fill(location: Path, name: str, options: dict[str, str]) -> None:
    """Four commits by Java, each of four rows; two of a=b, whose directory is escaped, and two of a null."""
    for first in range(0, 16, 4):
        rows = [(i, "a=b" if i % 2 else None, f"v{i}") for i in range(first, first + 4)]
        java.write(location, rows)
    if options.get("deletion-vectors.enabled") == "true":
        files = data_files(location, "dt=a%3Db")
        java.delete_places(location, {files[0]: [0], files[1]: [1]})
        java.delete_places(location, {files[1]: [0]})


def data_files(location: Path, partition: str = "") -> list[str]:
    return sorted(path.name for path in location.rglob("*.parquet") if partition in str(path))


def by_pypaimon(base: Path, name: str) -> Counter[Any]:
    builder = CatalogFactory.create({"warehouse": f"file://{base}/lake"}).get_table(f"db.{name}").new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return Counter(tuple(row.values()) for row in rows.to_pylist())


@dataclass(frozen=True)
class Squeezed:
    site: Site
    places: dict[str, Path]
    plan: Seen
    result: RunResult
    again: Seen
    before: dict[str, Counter[Any]]
    in_order: list[Any]
    ids: dict[str, Counter[Any]]


@pytest.fixture(scope="module")
def squeezed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Squeezed]:
    base = tmp_path_factory.mktemp("paimon-compaction")
    places = {name: create(base, name, options) for name, options in TABLES.items()}
    for name, (options, _) in REFUSED.items():
        create(base, name, options)
    create(base, "keys", {"bucket": "1"}, ("id", "dt"))
    for name, place in places.items():
        fill(place, name, TABLES[name])
    before = {name: Counter(java.rows(place)) for name, place in places.items()}
    in_order = java.rows(places["ordered"])
    ids = {name: Counter(java.tracked_rows(places[name])) for name in TABLES if name.startswith("tracked")}
    for name in TABLES:
        # Vectors of 64 bits are Java's alone.
        assert name == "wide_vectors" or by_pypaimon(base, name) == before[name], name
    java.write(base / "lake" / "db.db" / "orc_files", [(1, "x", "y")])
    with Site(base) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        plan = site.plan(JOB)
        result = site.apply(plan)
        yield Squeezed(site, places, plan, result, site.plan(JOB), before, in_order, ids)


def test_the_run_is_done(squeezed: Squeezed) -> None:
    steps = squeezed.site.warden.run_detail(squeezed.result.run_id)["steps"]
    assert squeezed.result.status == "done", squeezed.result.failed
    assert not squeezed.result.kept, steps


@pytest.mark.parametrize("name", sorted(TABLES))
def test_rows_are_what_they_were(squeezed: Squeezed, name: str) -> None:
    assert Counter(java.rows(squeezed.places[name])) == squeezed.before[name]
    assert by_pypaimon(squeezed.site.base, name) == squeezed.before[name]
    if name in squeezed.ids:
        assert Counter(java.tracked_rows(squeezed.places[name])) == squeezed.ids[name]


def by_partition(rows: list[Any]) -> dict[Any, list[int]]:
    """The ids of each partition, which has one bucket, in the order in which Java reads them."""
    found: dict[Any, list[int]] = {}
    for row in rows:
        found.setdefault(row[1], []).append(row[0])
    return found


def test_rows_of_an_ordered_bucket_come_in_the_same_order(squeezed: Squeezed) -> None:
    """And those that Java adds afterwards come behind them. Partitions come in any order."""
    place = squeezed.places["ordered"]
    before = by_partition(squeezed.in_order)
    assert before["a=b"] == list(range(1, 16, 2))
    assert by_partition(java.rows(place)) == before


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_next_plan_is_empty(squeezed: Squeezed, name: str) -> None:
    planned = squeezed.plan.table(f"lake.db.{name}")
    assert planned.refusal is None
    assert planned.changes["files"] == (12 if name == "buckets" else 8)
    assert squeezed.again.table(f"lake.db.{name}").changes == {"groups": 0, "files": 0}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_carried_exactly_is_refused_by_name(squeezed: Squeezed, name: str) -> None:
    refusal = squeezed.plan.table(f"lake.db.{name}").refusal
    assert refusal is not None
    assert (refusal.code, REFUSED[name][1] in refusal.message) == ("LW-TABLE-003", True)


def test_a_table_with_keys_is_refused(squeezed: Squeezed) -> None:
    refusal = squeezed.plan.table("lake.db.keys").refusal
    assert refusal is not None
    assert "primary key" in refusal.message


@dataclass
class Crowd:
    """One table, and what others do to it when its files are rewritten and nothing is committed yet."""

    site: Site
    location: Path
    monkeypatch: pytest.MonkeyPatch

    def compacted(self, meanwhile: Callable[[], object]) -> RunResult:
        name = f"lake.db.{self.location.name}"
        plan = self.site.plan(JOB, name)
        assert plan.table(name).changes["groups"] == 2
        rewrite = rewriting.rewrite_groups

        def then(*given: Any) -> Iterator[tuple[str, str]]:
            found = list(rewrite(*given))
            meanwhile()
            yield from found

        with self.monkeypatch.context() as patched:
            patched.setattr(rewriting, "rewrite_groups", then)
            return self.site.apply(plan)

    def ids(self) -> list[int]:
        return sorted(row[0] for row in java.rows(self.location))


_made = [0]


@pytest.fixture
def crowd(squeezed: Squeezed, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    """Four files in each of two partitions, ids 0 to 15, and deletion vectors allowed."""
    _made[0] += 1
    name = f"crowd{_made[0]}"
    location = create(squeezed.site.base, name, VECTORS)
    fill(location, name, {})
    return Crowd(squeezed.site, location, monkeypatch)


def test_rows_deleted_by_a_vector_meanwhile_do_not_come_back(crowd: Crowd) -> None:
    """The group of the file is dropped, the other lands, and the next run takes the first up with its vector."""
    name = data_files(crowd.location, "dt=a%3Db")[0]
    result = crowd.compacted(lambda: java.delete_places(crowd.location, {name: [0]}))
    assert (result.changed, result.kept) == ({"groups": 1, "files": 4}, {"groups": 1})
    left = crowd.ids()
    assert len(left) == 15
    again = crowd.site.apply(crowd.site.plan(JOB, f"lake.db.{crowd.location.name}"))
    assert again.changed == {"groups": 1, "files": 4}
    assert crowd.ids() == left


def test_what_paimon_itself_compacted_meanwhile_is_left_to_it(crowd: Crowd) -> None:
    result = crowd.compacted(lambda: java.compact_append(crowd.location, {"compaction.min.file-num": "2"}))
    assert (result.changed, result.kept) == ({"groups": 0, "files": 0}, {"groups": 2})
    assert crowd.ids() == list(range(16))


def test_an_overwrite_and_an_append_meanwhile(crowd: Crowd) -> None:
    def both() -> None:
        java.write(crowd.location, [(100, "a=b", "x")], overwrite={"dt": "a=b"})
        java.write(crowd.location, [(101, None, "x")])

    result = crowd.compacted(both)
    assert result.changed["groups"] == 1
    assert crowd.ids() == [*range(0, 16, 2), 100, 101]


def test_orphan_cleanup_keeps_off_what_is_written_and_not_yet_committed(crowd: Crowd) -> None:
    before = set(data_files(crowd.location))
    verdicts: list[str] = []

    def clean() -> None:
        site = crowd.site
        kept = dict(site.sections["orphan_cleanup"])
        site.sections["orphan_cleanup"]["grace_period_hours"] = 0
        warden = site.another()
        uuid = table_uuid(read_table(f"file://{crowd.location}/", Stores({})))
        plan = warden.plan("orphans", select=[f"lake.db.{crowd.location.name}"], unsafe_short_grace=[uuid])
        new = set(data_files(crowd.location)) - before
        verdicts.extend(row["verdict"] for row in warden.plan_rows(plan.path) if row["uri"].rpartition("/")[2] in new)
        site.sections["orphan_cleanup"] = kept

    assert crowd.compacted(clean).status == "done"
    assert verdicts == ["in_flight", "in_flight"]
    assert crowd.ids() == list(range(16))


@pytest.mark.parametrize("name", ["tracked_vectors", "vectors"])
def test_paimon_goes_on_with_what_was_compacted(squeezed: Squeezed, name: str) -> None:
    """Its own deletes, compaction, incremental reading and expiry: on our files, and on those that follow."""
    place = squeezed.places[name]
    ours = latest(place)
    assert java.between(place, ours - 1, ours) == []
    expected = {row[0] for row in squeezed.before[name]}
    file = newest_file(place, "dt=a%3Db")
    java.delete_places(place, {file: [0]})
    gone = expected - {row[0] for row in java.rows(place)}
    assert len(gone) == 1
    java.write(place, [(50, "a=b", "x"), (51, None, "y")])
    assert sorted(row[0] for row in java.between(place, ours + 1, ours + 2)) == [50, 51]
    assert java.compact_append(place, {"compaction.min.file-num": "2"}) > 0
    assert {row[0] for row in java.rows(place)} == (expected - gone) | {50, 51}
    assert java.expire(place, retain_max=1, retain_min=1, time_retained_ms=0) > 0
    assert {row[0] for row in java.rows(place)} == (expected - gone) | {50, 51}
    assert java.orphans(place).paths == ()


def latest(location: Path) -> int:
    return max(int(path.name.removeprefix("snapshot-")) for path in (location / "snapshot").glob("snapshot-*"))


def newest_file(location: Path, partition: str) -> str:
    found = [path for path in location.rglob("*.parquet") if partition in str(path)]
    return max(found, key=lambda path: path.stat().st_mtime_ns).name


def test_what_java_adds_to_an_ordered_bucket_comes_behind_what_was_rewritten(squeezed: Squeezed) -> None:
    place = squeezed.places["ordered"]
    java.write(place, [(i, "a=b", f"later {i}") for i in (103, 101, 102)])
    assert by_partition(java.rows(place))["a=b"] == [*range(1, 16, 2), 103, 101, 102]
