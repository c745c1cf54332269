"""Paimon append tables by plan and apply: the same rows to Java and to pypaimon, and their own jobs go on afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory, Schema

from lakewarden.model.run import RunResult
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
    "beside": {**VECTORS, "index-file-in-data-file-dir": "true", "data-file.path-directory": "rows/here"},
    "named": {"data-file.prefix": "part-", "file.suffix.include.compression": "true", "file.compression": "snappy"},
}
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "orc_files": ({"file.format": "orc"}, "file.format=orc"),
    "ordered": ({"bucket": "1", "bucket-key": "id", "write-only": "true"}, "order of rows"),
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
    ids = {name: Counter(java.tracked_rows(places[name])) for name in TABLES if name.startswith("tracked")}
    for name in TABLES:
        # Vectors of 64 bits are Java's alone.
        assert name == "wide_vectors" or by_pypaimon(base, name) == before[name], name
    java.write(base / "lake" / "db.db" / "orc_files", [(1, "x", "y")])
    with Site(base) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        plan = site.plan(JOB)
        result = site.apply(plan)
        yield Squeezed(site, places, plan, result, site.plan(JOB), before, ids)


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
