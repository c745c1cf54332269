"""Rows deleted by position while their files are rewritten, by Iceberg's own writers in every way that they have: Spark and
PyIceberg read the same rows and ids before and after, and Iceberg's procedures go on with what was committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.model.compaction import GROUP_LEFT
from tests.jobs.compaction.test_meanwhile import Crowd
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.oracle_tables import delete_equal
from tests.support.spark import add_sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKE = "crowded"
PER_PARTITION = "ALTER TABLE {0} SET TBLPROPERTIES ('write.delete.granularity'='partition')"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    base = tmp_path_factory.mktemp("deleted")
    properties = add_sqlite_catalog(spark, LAKE, base / "catalog.db", f"file://{base}/warehouse")
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    with Site(base, {LAKE: properties}) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        yield site


def delete(crowd: Crowd, name: str, where: str) -> None:
    crowd.spark.sql(f"DELETE FROM {name} WHERE {where}")


def several_commits(crowd: Crowd, name: str) -> None:
    delete(crowd, name, "id IN (0, 5, 6)")
    delete(crowd, name, "id IN (7, 10)")
    delete(crowd, name, "id = 1")


def all_rows(crowd: Crowd, name: str) -> None:
    """Of every file of a partition, by conditions that no bounds of a file can answer: else the files would go."""
    delete(crowd, name, "part = 'a' AND id % 12 < 8")
    delete(crowd, name, "part = 'a' AND id % 12 >= 8")


def whole_files(crowd: Crowd, name: str) -> None:
    """Bounds of the files show that all of their rows are meant: no delete is written, the files are taken away."""
    delete(crowd, name, "part = 'a' AND id < 8")


def merge(crowd: Crowd, name: str, mode: str) -> None:
    crowd.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.merge.mode'='{mode}')")
    crowd.spark.sql(
        f"MERGE INTO {name} t USING (SELECT id, 'a' AS part FROM range(2, 15, 3)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id > 6 THEN DELETE WHEN MATCHED THEN UPDATE SET t.id = t.id + 100 "
        "WHEN NOT MATCHED THEN INSERT *"
    )


def merged(crowd: Crowd, name: str) -> None:
    merge(crowd, name, "merge-on-read")


def merged_by_copy(crowd: Crowd, name: str) -> None:
    merge(crowd, name, "copy-on-write")


def rewritten_deletes(crowd: Crowd, name: str) -> None:
    delete(crowd, name, "id IN (6, 9)")
    delete(crowd, name, "id = 8")
    crowd.spark.sql(
        f"CALL {LAKE}.system.rewrite_position_delete_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )


def only_rewritten_deletes(crowd: Crowd, name: str) -> None:
    crowd.spark.sql(
        f"CALL {LAKE}.system.rewrite_position_delete_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )


def by_value_too(crowd: Crowd, name: str) -> None:
    delete(crowd, name, "id = 6")
    delete_equal(crowd.spark, name, [7])
    delete(crowd, name, "id = 9")
    crowd.insert(name, 7, 8)


Act = Callable[[Crowd, str], None]
# Each act once, with one of the forms that deletes have: version, and how many files one file of deletes may be about.
SHORT: dict[Act, tuple[int, str]] = {
    several_commits: (2, "partition"),
    all_rows: (3, "file"),
    whole_files: (2, "file"),
    merged: (3, "file"),
    merged_by_copy: (3, "file"),
    rewritten_deletes: (2, "partition"),
    only_rewritten_deletes: (2, "file"),
    by_value_too: (2, "file"),
}
FORMS = [(2, "file"), (2, "partition"), (3, "file")]  # vectors are about one file each
CASES = [
    pytest.param(act, *form, marks=[] if SHORT[act] == form else pytest.mark.soak)
    for act, form in product(SHORT, FORMS)
]
# Groups that lose an input have to be left: their rows are in files that the group was not made of.
LEFT: dict[Act, int] = {whole_files: 1, merged_by_copy: 2}


def rows(crowd: Crowd, name: str, version: int) -> list[Any]:
    more = ", _row_id, _last_updated_sequence_number" if version >= 3 else ""
    crowd.spark.sql(f"REFRESH TABLE {name}")
    found = [tuple(row) for row in crowd.spark.sql(f"SELECT id, part{more} FROM {name}").collect()]
    return sorted(found)


def by_pyiceberg(crowd: Crowd, name: str) -> list[Any] | str:
    try:
        table = crowd.site.catalog(LAKE).load_table(name.removeprefix(f"{LAKE}."))
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    except ValueError as error:
        if "equality" not in str(error):
            raise
        return "equality deletes"


@pytest.mark.parametrize(("act", "version", "granularity"), CASES)
def test_rows_and_ids_are_what_they_were(
    lake: Site, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, act: Act, version: int, granularity: str
) -> None:
    number = [*SHORT].index(act) * 100 + version * 10 + (granularity == "file")
    crowd = Crowd(lake, spark, monkeypatch, number)
    name = crowd.table(by="part" if act is not by_value_too else "", version=version)
    if granularity == "partition":
        spark.sql(PER_PARTITION.format(name))
    delete(crowd, name, "id IN (2, 4, 11)")
    before: list[Any] = []

    def meanwhile(table: str) -> None:
        act(crowd, table)
        before.extend([rows(crowd, table, version), by_pyiceberg(crowd, table)])

    result = crowd.compacted(name, meanwhile)
    assert result.status == "done"
    groups, left = 1 if act is by_value_too else 2, LEFT.get(act, 0)
    assert (result.changed["groups"], result.kept) == (groups - left, {"groups": left} if left else {})
    steps = lake.warden._deployment.ledger.runs.steps(result.run_id)
    reasons = [step.detail["why"] for step in steps if step.name == GROUP_LEFT]
    assert len(reasons) == left
    assert all(why.endswith("is not in the table any more") for why in reasons)
    assert rows(crowd, name, version) == before[0]
    assert by_pyiceberg(crowd, name) == before[1]
    files = f"CALL {LAKE}.system.{{0}}(table => '{name}', options => map('rewrite-all', 'true'))"
    delete(crowd, name, "id = 3")
    expected = [row for row in before[0] if row[0] != 3]
    assert rows(crowd, name, version) == expected
    spark.sql(files.format("rewrite_position_delete_files"))
    assert rows(crowd, name, version) == expected
    spark.sql(files.format("rewrite_data_files"))
    assert rows(crowd, name, version) == expected
    spark.sql(
        f"CALL {LAKE}.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    assert rows(crowd, name, version) == expected
