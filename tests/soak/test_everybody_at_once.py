"""Writers of every kind at work on tables while these are compacted: no commit of ours changes a row, and what it says is so.

Whatever the order of commits was, each `replace` of ours has to show the rows that its parent shows, and each delete by
value has to take exactly its rows from its parent, rewritten or not. So nobody needs to know what the rows are.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import CommitFailedException, NotInstalledError, ValidationException
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyspark.errors import PySparkException
from sqlalchemy.exc import OperationalError

from lakewarden.model.run import RunResult
from lakewarden.pipeline.rewrite import files as rewriting
from tests.jobs.compaction.java_tables import JavaTable
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.spark import add_postgres_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(7200),
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),
]
SECONDS = int(os.environ.get("SOAK_SECONDS", 600))
SEED = int(os.environ.get("SOAK_SEED", 1))
LAKE = "everybody"
PARTS = ("a", "b")
MODES = ", ".join(f"'write.{what}.mode'='merge-on-read'" for what in ("delete", "update", "merge"))
# What other writers are told when somebody was quicker, or when a table is no longer what their statement was made for.
EXPECTED = (
    "CommitFailedException", "ValidationException", "Cannot commit", "conflicting", "Missing required files", "conflict",
    "Cannot find", "cannot be resolved", "does not exist", "not an ancestor", "Unknown snapshot", "No such", "already exists",
    "Not an ancestor", "not a current ancestor", "is not the current ancestor", "UNRESOLVED_COLUMN", "concurrent update",
    "Cannot roll back", "Cannot fast-forward", "incompatible", "INSERT_COLUMN_ARITY", "Cannot add duplicate", "has been modified",
)  # fmt: skip
TOTALS = {
    DataFileContent.DATA: ("total-data-files", "total-records"),
    DataFileContent.POSITION_DELETES: ("total-delete-files", "total-position-deletes"),
    DataFileContent.EQUALITY_DELETES: ("total-delete-files", "total-equality-deletes"),
}
Rows = Counter[tuple[Any, ...]]


@dataclass
class Scene:
    """One table, and everybody who writes to it."""

    site: Site
    spark: SparkSession
    name: str
    version: int
    by: str
    branch: str
    draw: random.Random
    next_id: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    checked: set[int] = field(default_factory=set)
    compared: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.spark.sql(
            f"CREATE TABLE {self.name} (id BIGINT, part STRING, n INT) USING iceberg "
            f"{f'PARTITIONED BY ({self.by})' if self.by else ''} TBLPROPERTIES ('format-version'='{self.version}', {MODES}, "
            "'write.distribution-mode'='none', 'write.delete.distribution-mode'='none', "
            f"'lakewarden.compaction.branch'='{self.branch}')"
        )
        branch, self.branch = self.branch, "main"
        self.insert()
        if branch != "main":
            self.spark.sql(f"ALTER TABLE {self.name} CREATE BRANCH {branch}")
            self.branch = branch

    @property
    def here(self) -> str:
        """The table as statements name its branch."""
        return self.name if self.branch == "main" else f"{self.name}.branch_{self.branch}"

    def table(self) -> Table:
        return self.site.catalog(LAKE).load_table(self.name.removeprefix(f"{LAKE}."))

    def ids(self) -> list[int]:
        """Some that may be there."""
        return [self.draw.randrange(max(1, self.next_id)) for _ in range(3)]

    def insert(self) -> None:
        first, self.next_id = self.next_id, self.next_id + 8
        part = self.draw.choice(PARTS)
        self.spark.sql(f"INSERT INTO {self.here} (id, part) SELECT id, '{part}' FROM range({first}, {first + 8}, 1, 1)")

    def delete(self) -> None:
        self.spark.sql(f"DELETE FROM {self.here} WHERE id IN ({', '.join(map(str, self.ids()))})")

    def delete_part(self) -> None:
        self.spark.sql(
            f"DELETE FROM {self.here} WHERE part = '{self.draw.choice(PARTS)}' AND id % 11 = {self.draw.randrange(11)}"
        )

    def update(self) -> None:
        part = self.draw.choice(PARTS)
        self.spark.sql(f"UPDATE {self.here} SET part = '{part}' WHERE id IN ({', '.join(map(str, self.ids()))})")

    def merge(self) -> None:
        ids = ", ".join(f"({one}L)" for one in {*self.ids(), self.next_id + 10**6})
        self.spark.sql(
            f"MERGE INTO {self.here} t USING (SELECT * FROM VALUES {ids} AS v(id)) s ON t.id = s.id "
            "WHEN MATCHED AND t.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET part = 'b' "
            "WHEN NOT MATCHED THEN INSERT (id, part) VALUES (s.id, 'a')"
        )

    def overwrite(self) -> None:
        first, self.next_id = self.next_id, self.next_id + 4
        part = self.draw.choice(PARTS)
        self.spark.sql(
            f"INSERT OVERWRITE {self.name} (id, part) SELECT id, '{part}' FROM range({first}, {first + 4}, 1, 1)"
            if self.draw.random() < 0.2
            else f"DELETE FROM {self.here} WHERE part = '{part}' AND id < {first // 2}"
        )

    def delete_by_value(self) -> None:
        """Without a look at what the table holds by then, as streams do."""
        ids, part = self.ids(), self.draw.choice(PARTS)
        java = JavaTable(self.spark, self.name)
        columns = java.table.schema().select(["id"])
        numbers = self.spark.sparkContext._gateway.new_array(self.spark._jvm.int, 1)
        numbers[0] = columns.findField("id").fieldId()
        factory = java._factory().equalityFieldIds(numbers).equalityDeleteRowSchema(columns).build()
        writer = factory.newEqualityDeleteWriter(*java._where(f"part={part}" if self.by else None, 0))
        for one in ids:
            writer.write(java._record({"id": one}, columns))
        writer.close()
        change = java.table.newRowDelta().addDeletes(writer.toDeleteFile()).toBranch(self.branch)
        change.set("attack", json.dumps({"ids": ids, "part": part if self.by else None})).commit()

    def upsert_by_value(self) -> None:
        self.delete_by_value()
        self.insert()

    def append_by_python(self) -> None:
        if self.version < 3:
            first, self.next_id = self.next_id, self.next_id + 8
            rows = {"id": pa.array(range(first, first + 8), pa.int64()), "part": [self.draw.choice(PARTS)] * 8}
            self.table().append(pa.table(rows), branch=self.branch)

    def delete_by_python(self) -> None:
        """Files are written again without the rows."""
        if self.version < 3 and self.branch == "main":
            try:
                self.table().delete(f"id = {self.ids()[0]}")
            except ValueError as error:
                if "equality" not in str(error):  # which PyIceberg does not read
                    raise

    def evolve(self) -> None:
        change = self.draw.choice(
            [
                f"ADD COLUMN c{self.draw.randrange(3)} INT", f"DROP COLUMN c{self.draw.randrange(3)}",
                "ALTER COLUMN n TYPE BIGINT", "RENAME COLUMN n TO m", "RENAME COLUMN m TO n",
            ]
        )  # fmt: skip
        self.spark.sql(f"ALTER TABLE {self.name} {change}")

    def evolve_partitions(self) -> None:
        change = self.draw.choice(["ADD PARTITION FIELD bucket(2, id)", "DROP PARTITION FIELD bucket(2, id)"])
        self.spark.sql(f"ALTER TABLE {self.name} {change}")

    def roll_back(self) -> None:
        if self.branch == "main":
            ids = [row.snapshot_id for row in self.table().metadata.snapshot_log][-4:-1]
            if ids:
                self.spark.sql(f"CALL {LAKE}.system.set_current_snapshot('{self.name}', {self.draw.choice(ids)})")

    def other_branch(self) -> None:
        """A branch that is written to and that main is forwarded to, if nobody was quicker."""
        self.spark.sql(f"ALTER TABLE {self.name} CREATE OR REPLACE BRANCH side")
        first, self.next_id = self.next_id, self.next_id + 2
        self.spark.sql(
            f"INSERT INTO {self.name}.branch_side (id, part) SELECT id, 'a' FROM range({first}, {first + 2}, 1, 1)"
        )
        self.spark.sql(f"DELETE FROM {self.name}.branch_side WHERE id = {self.ids()[0]}")
        self.spark.sql(f"CALL {LAKE}.system.fast_forward('{self.name}', 'main', 'side')")

    def expire(self) -> None:
        self.spark.sql(
            f"CALL {LAKE}.system.expire_snapshots(table => '{self.name}', older_than => TIMESTAMP '2100-01-01', retain_last => 6)"
        )

    def rewrite(self) -> None:
        what = self.draw.choice(["rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests"])
        options = "" if what == "rewrite_manifests" else ", options => map('rewrite-all', 'true')"
        self.spark.sql(f"CALL {LAKE}.system.{what}(table => '{self.name}'{options})")

    def trades(self) -> dict[str, list[Callable[[], None]]]:
        """Who is at work, and how often each does what."""
        often = [self.insert] * 3
        return {
            "spark": [*often, self.delete, self.delete, self.delete_part, self.update, self.merge, self.overwrite],
            "stream": [*often, self.delete_by_value, self.delete_by_value, self.upsert_by_value, self.delete],
            "python": [*[self.append_by_python if self.version < 3 else self.insert] * 3, self.delete_by_python],
            "owner": [
                self.evolve,
                self.evolve_partitions,
                self.roll_back,
                self.other_branch,
                self.rewrite,
                self.insert,
            ],
        }

    def work(self, acts: int, *trades: str) -> None:
        for trade in trades:
            for _ in range(acts):
                self.attempt(self.draw.choice(self.trades()[trade]))

    def attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
            self.acts[act.__name__] += 1
        except (CommitFailedException, ValidationException, OperationalError):
            self.acts["overtaken"] += 1
        except NotInstalledError:
            self.acts["buckets are not PyIceberg's"] += 1
        except (Py4JJavaError, PySparkException) as error:
            if any(word in str(error) for word in EXPECTED):
                self.acts["overtaken"] += 1
            else:
                self.wrong.append(f"{act.__name__}: {str(error)[:1500]}")
        except BaseException:
            self.wrong.append(f"{act.__name__}: {traceback.format_exc()[-1500:]}")

    def compact(self) -> None:
        """One plan and its run. Others write between the reading of a group and its commit, and one of them during it."""
        plan = self.site.plan("compaction", self.name)
        if not any(plan.table(self.name).changes.values()):
            return
        beside = threading.Thread(target=self.work, args=(3, self.draw.choice(["spark", "stream", "python"])))
        rewrite = rewriting.rewrite_groups

        def then(*given: Any) -> Iterator[tuple[str, str]]:
            found = list(rewrite(*given))
            self.work(1, *self.draw.sample(["spark", "stream", "stream", "python", "owner"], 2))
            beside.start()
            yield from found

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(rewriting, "rewrite_groups", then)
            result = self.site.apply(plan)
        if beside.ident is not None:
            beside.join()
        self.acts[f"compaction {result.status}"] += 1
        self.check_told(result)

    def check_told(self, result: RunResult) -> None:
        for one in result.failed:
            self.acts[f"compaction {one.code}"] += 1
        summaries = [s for s in self.summaries() if s.get("lakewarden.run") == result.run_id]
        groups = sum(len(s["lakewarden.groups"].split(",")) for s in summaries)
        files = sum(int(s.get("deleted-data-files", 0)) for s in summaries)
        said = dict(result.changed)
        self.acts["groups"] += said["groups"]
        self.acts["groups left"] += dict(result.kept).get("groups", 0)
        if (said["groups"], said["files"]) != (groups, files):
            self.wrong.append(f"run {result.run_id} says {said}, and committed {groups} groups of {files} files")

    def summaries(self) -> list[dict[str, str]]:
        return [s.summary.additional_properties for s in self.table().metadata.snapshots if s.summary is not None]

    def check(self) -> None:
        """Every commit of ours, and every delete by value, beside its parent, once each."""
        table = self.table()
        schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
        by_id = {s.snapshot_id: s for s in table.metadata.snapshots}
        for number, snapshot in by_id.items():
            parent = by_id.get(snapshot.parent_snapshot_id or 0)
            if number in self.checked or parent is None or snapshot.summary is None:
                continue
            self.checked.add(number)
            said = snapshot.summary.additional_properties
            ours, attack = said.get("lakewarden.job") == "compaction", said.get("attack")
            if not ours and attack is None:
                continue
            now, was = ({f.field_id: f.name for f in schemas[s.schema_id or 0].fields} for s in (snapshot, parent))
            shared = sorted(now.keys() & was.keys())
            after, before = (
                self.rows(number, [now[n] for n in shared]),
                self.rows(parent.snapshot_id, [was[n] for n in shared]),
            )
            if attack is not None:
                gone = json.loads(attack)
                before = Counter({row: n for row, n in before.items() if not _is_deleted(row, gone)})
            self.compared["ours" if ours else "by value"] += 1
            if after != before:
                what = "compaction" if ours else "delete by value"
                self.wrong.append(f"{what} {number}: lost {before - after}, came {after - before}, {dict(said)}")
            if ours:
                self.check_totals(table, number, said)

    def rows(self, snapshot: int, columns: list[str]) -> Rows:
        """Each row with its spec first, and its lineage last."""
        more = ["_row_id", "_last_updated_sequence_number"] if self.version >= 3 else []
        chosen = ", ".join(["_spec_id", *columns, *more])
        return Counter(
            tuple(row) for row in self.spark.sql(f"SELECT {chosen} FROM {self.name} VERSION AS OF {snapshot}").collect()
        )

    def check_totals(self, table: Table, number: int, said: Any) -> None:
        found: Counter[str] = Counter()
        changed: Counter[str] = Counter()
        snapshot = table.snapshot_by_id(number)
        assert snapshot is not None
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                file = entry.data_file
                if entry.status != ManifestEntryStatus.DELETED:
                    files, rows = TOTALS[file.content]
                    found.update({files: 1, rows: file.record_count})
                if (
                    entry.snapshot_id == number
                    and file.content == DataFileContent.DATA
                    and entry.status != ManifestEntryStatus.EXISTING
                ):
                    kind = "added" if entry.status == ManifestEntryStatus.ADDED else "deleted"
                    changed.update({f"{kind}-data-files": 1, f"{kind}-records": file.record_count})
        for name, count in {**changed, **{n: found[n] for pair in TOTALS.values() for n in pair}}.items():
            if int(said.get(name, 0)) != count:
                self.wrong.append(f"compaction {number} says {name} {said.get(name)}, and it is {count}")


def _is_deleted(row: tuple[Any, ...], gone: dict[str, Any]) -> bool:
    spec, number, part = row[:3]
    return number in gone["ids"] and (gone["part"] is None or (spec == 0 and part == gone["part"]))


KINDS = {
    "parts": (2, "part", "main"),
    "vectors": (3, "part", "main"),
    "whole": (2, "", "main"),
    "whole_vectors": (3, "", "main"),
    "branch": (2, "part", "aside"),
}


@pytest.fixture
def site(spark: SparkSession, postgres_url: str, tmp_path: Path) -> Iterator[Site]:
    url = urlsplit(postgres_url)
    warehouse = f"file://{tmp_path}/warehouse"
    jdbc = f"jdbc:postgresql://{url.hostname}:{url.port}{url.path}"
    add_postgres_catalog(spark, LAKE, jdbc, url.username or "", url.password or "", warehouse)
    spark.sql(f"CREATE NAMESPACE {LAKE}.t")
    uri = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    with Site(tmp_path, {LAKE: {"type": "sql", "uri": uri, "warehouse": warehouse}}) as found:
        found.sections["compaction"] = {"min_input_files": 2}
        yield found


def test_each_commit_shows_the_rows_of_its_parent(
    site: Site, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    end = time.monotonic() + SECONDS
    scenes = [
        Scene(site, spark, f"{LAKE}.t.{kind}", *what, random.Random(SEED * 100 + place))
        for place, (kind, what) in enumerate(KINDS.items())
    ]
    # A table whose groups were all in conflict so far has shown nothing yet.
    while time.monotonic() < end or not all(scene.compared["ours"] for scene in scenes):
        for scene in scenes:
            scene.work(2, "spark", "stream", "python")
            scene.compact()
            scene.check()
            if scene.draw.random() < 0.2:
                scene.attempt(scene.expire)
            assert not scene.wrong, "\n\n".join(scene.wrong)
    with capsys.disabled():
        for scene in scenes:
            print(f"\n{scene.name}: compared {dict(scene.compared)}; {dict(scene.acts)}")
