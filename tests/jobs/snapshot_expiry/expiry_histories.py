"""Courses of events that an Iceberg table can have behind it when its snapshots expire, by Spark and by PyIceberg.

Afterwards the snapshots are set an hour apart, the newest half an hour ago. Where nothing else is said, what is older
than an hour goes.
"""

from __future__ import annotations

from tests.jobs.snapshot_expiry.expiry_pen import HISTORIES, MERGE_ON_READ, Pen, arrow, history
from tests.support.lakes import local_path

__all__ = ["HISTORIES"]

MOR = {name.replace("-", "__").replace(".", "_"): value for name, value in MERGE_ON_READ.items()}


@history()
def appends(pen: Pen) -> None:
    """Nothing was ever deleted: only lists and manifests become free."""
    pen.create()
    for first in (0, 4, 8, 12):
        pen.append(first)


@history()
def overwrites(pen: Pen) -> None:
    pen.create()
    for first in (0, 10, 20):
        pen.overwrite(first)
        pen.append(first + 4)


@history(policy={"retain_min": 3}, retain_last=3)
def a_few_are_kept(pen: Pen) -> None:
    """More than the age limit would leave."""
    pen.create()
    for first in (0, 4, 8, 12, 16):
        pen.overwrite(first)


@history(older_than_hours=3.0)
def by_age(pen: Pen) -> None:
    pen.create(partitioned=False)
    for first in (0, 4, 8, 12, 16):
        pen.overwrite(first)


@history(older_than_hours=None)
def its_own_limits(pen: Pen) -> None:
    """The table's own properties say how long and how many."""
    pen.create(history_expire_max__snapshot__age__ms=str(2 * 3_600_000), history_expire_min__snapshots__to__keep="3")
    for first in (0, 4, 8, 12, 16):
        pen.overwrite(first)


@history()
def version_one(pen: Pen) -> None:
    """Copy on write, without sequence numbers."""
    pen.create(1)
    pen.append(0)
    pen.append(4)
    pen.sql("DELETE FROM {t} WHERE id IN (1, 4)")
    pen.sql("INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id < 6")


@history()
def position_deletes(pen: Pen) -> None:
    """Rows deleted on read, then the files rewritten: delete files and data files become free at different times."""
    pen.create(**MOR)
    pen.append(0, 12)
    pen.sql("DELETE FROM {t} WHERE id = 3")
    pen.sql("DELETE FROM {t} WHERE id = 4")
    pen.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    pen.append(20)


@history()
def deletion_vectors(pen: Pen) -> None:
    """Version 3: one Puffin file holds vectors of two files; the second takes the first one's place for one of them."""
    pen.create(3, **MOR)
    pen.insert(0, 12)
    pen.sql("DELETE FROM {t} WHERE id IN (2, 3)")
    pen.sql("DELETE FROM {t} WHERE id = 6")
    pen.insert(12)


@history()
def raised_to_version_three(pen: Pen) -> None:
    pen.create(1, **MOR)
    pen.append(0, 8)
    pen.set(format__version="2")
    pen.sql("DELETE FROM {t} WHERE id = 1")
    pen.set(format__version="3")
    pen.sql("DELETE FROM {t} WHERE id = 3")
    pen.insert(20)


@history()
def replaced_partitions(pen: Pen) -> None:
    """Whole partitions replaced, as nightly jobs do."""
    pen.create()
    pen.append(0)
    for first in (10, 20):
        rows = pen.spark.createDataFrame([(first, "a"), (first + 2, "a")], "id BIGINT, part STRING")
        rows.coalesce(1).writeTo(pen.name).overwritePartitions()


@history()
def diverged_branch(pen: Pen) -> None:
    """A branch whose line left main's before main overwrote everything."""
    pen.create()
    pen.append(0)
    pen.append(4)
    pen.alter("CREATE BRANCH work")
    pen.append(100, branch="work")
    pen.append(104, branch="work")
    pen.overwrite(8)
    pen.overwrite(12)


@history()
def branches_with_limits(pen: Pen) -> None:
    """Each branch keeps a run of its own: by number, by age, and one that is too old itself."""
    pen.create()
    for first in (0, 4, 8):
        pen.append(first)
    pen.alter("CREATE BRANCH old RETAIN 3 HOURS")
    pen.alter("CREATE BRANCH numbered WITH SNAPSHOT RETENTION 3 SNAPSHOTS")
    pen.alter("CREATE BRANCH aged WITH SNAPSHOT RETENTION 5 HOURS")
    pen.insert(50, branch="numbered")  # PyIceberg would forget the limits
    pen.insert(60, branch="aged")
    for first in (20, 30):
        pen.overwrite(first)


@history()
def tags(pen: Pen) -> None:
    """One for ever, one that is still young enough, one that is stale."""
    pen.create()
    pen.append(0)
    pen.alter("CREATE TAG `for ever`")
    pen.overwrite(10)
    pen.alter("CREATE TAG stale RETAIN 2 HOURS")
    pen.overwrite(20)
    pen.alter("CREATE TAG young RETAIN 9 HOURS")
    pen.overwrite(30)
    pen.overwrite(40)


@history()
def tag_on_a_lost_branch(pen: Pen) -> None:
    """A branch was dropped; a tag on its way keeps one of its snapshots, the others are nobody's."""
    pen.create()
    pen.append(0)
    pen.alter("CREATE BRANCH gone")
    for first in (50, 60, 70):
        pen.append(first, branch="gone")
    middle = pen.table().snapshot_by_name("gone")
    assert middle is not None
    pen.alter(f"CREATE TAG half AS OF VERSION {middle.parent_snapshot_id}")
    pen.alter("DROP BRANCH gone")
    pen.overwrite(4)


@history(policy={"max_ref_age_hours": 2, "keep": ["release-*"]}, keeps="a pattern keeps a tag that Java drops by age")
def refs_by_the_policy(pen: Pen) -> None:
    """Java has the same default as a property; it knows no patterns."""
    pen.create(history_expire_max__ref__age__ms=str(2 * 3_600_000))
    pen.append(0)
    pen.alter("CREATE TAG `release-1`")
    pen.overwrite(10)
    pen.alter("CREATE TAG nightly")
    pen.overwrite(20)
    pen.overwrite(30)


@history()
def staged(pen: Pen) -> None:
    """Two snapshots that wait to be published, one of them for too long."""
    pen.create(write_wap_enabled="true")
    pen.insert(0)
    pen.stage(50, "audit-1")
    pen.overwrite(4)
    pen.stage(60, "audit-2")


@history()
def cherry_picked(pen: Pen) -> None:
    """A staged snapshot published onto a main that moved on: its files under a new snapshot."""
    pen.create(write_wap_enabled="true")
    pen.insert(0)
    pen.stage(50, "audit-1")
    waiting = pen.snapshots()[-1]
    pen.append(4)
    pen.call("cherrypick_snapshot", f"snapshot_id => {waiting}")
    pen.append(8)


@history()
def rolled_back(pen: Pen) -> None:
    """Main set back to an old snapshot; what came after has no ref, and is not all old."""
    pen.create()
    for first in (0, 4, 8):
        pen.append(first)
    first, *_ = pen.snapshots()
    pen.overwrite(100)
    pen.call("rollback_to_snapshot", f"snapshot_id => {first}")
    pen.append(12)


@history(older_than_hours=2.0)
def rolled_back_to_the_first(pen: Pen) -> None:
    """The current snapshot is the oldest of all."""
    pen.create()
    for first in (0, 10, 20, 30):
        pen.overwrite(first)
    pen.call("rollback_to_snapshot", f"snapshot_id => {pen.snapshots()[0]}")


@history()
def fast_forwarded(pen: Pen) -> None:
    pen.create()
    pen.append(0)
    pen.alter("CREATE BRANCH audit")
    pen.append(4, branch="audit")
    pen.append(8, branch="audit")
    pen.call("fast_forward", "branch => 'main'", "to => 'audit'")
    pen.overwrite(20)


@history()
def statistics(pen: Pen) -> None:
    """Table and partition statistics of a snapshot that goes and of one that stays."""
    pen.create()
    pen.append(0)
    for first in (4, 8):
        pen.call("compute_table_stats")
        pen.call("compute_partition_stats")
        pen.append(first)
    pen.call("compute_table_stats")


@history()
def rewritten(pen: Pen) -> None:
    """Data files and manifests written anew."""
    pen.create(partitioned=False)
    for first in (0, 4, 8):
        pen.append(first)
    pen.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    pen.call("rewrite_manifests")
    pen.append(12)


@history()
def evolved(pen: Pen) -> None:
    """Schemas and partition specs changed between snapshots; old snapshots read with old schemas."""
    pen.create()
    pen.append(0)
    pen.alter("CREATE TAG `before`")
    pen.alter("ADD COLUMN more STRING")
    pen.alter("DROP PARTITION FIELD part")
    pen.sql("INSERT INTO {t} VALUES (4, 'a', 'x'), (5, 'b', 'y')")
    pen.alter("RENAME COLUMN part TO section")
    pen.sql("INSERT OVERWRITE {t} VALUES (6, 'a', 'x'), (7, 'b', 'y')")


@history(trims=True)
def short_log(pen: Pen) -> None:
    """The log names two metadata files; more lie there."""
    pen.create(write_metadata_previous__versions__max="2")
    for first in (0, 4, 8):
        pen.overwrite(first)


@history()
def zipped_metadata(pen: Pen) -> None:
    pen.create()
    pen.set(write_metadata_compression__codec="gzip")
    for first in (0, 4, 8):
        pen.insert(first)
    pen.sql("INSERT OVERWRITE {t} VALUES (100, 'a')")


@history()
def metadata_elsewhere(pen: Pen) -> None:
    """Data and metadata outside the table's own directory after a first write inside it."""
    pen.create()
    pen.append(0)
    outside = f"file://{pen.base}/elsewhere/{pen.identifier}"
    pen.set(write_data_path=f"{outside}/d", write_metadata_path=f"{outside}/m")
    pen.append(4)
    pen.overwrite(8)
    pen.append(12)


SHARED = "another table needs it: Java looks at one table alone, and deletes a file of the other"


@history(keeps=SHARED)
def lender(pen: Pen) -> None:
    """A table some of whose files another one added as its own."""
    pen.create()
    pen.append(0)
    pen.append(4)


@history(keeps=SHARED)
def borrower(pen: Pen) -> None:
    """Adds two files of the lender; then the lender gives up the one, and this table the other."""
    lender = pen.catalog.load_table(pen.identifier.replace("borrower", "lender"))
    pen.create()
    paths = sorted(local_path(path) for path in lender.inspect.files()["file_path"].to_pylist())
    pen.table().add_files([f"file://{path}" for path in paths])
    lender.delete("id == 0 or id == 2")
    lender.append(arrow(20))
    pen.table().delete("id == 5 or id == 7")
    pen.append(30)


@history()
def never_written(pen: Pen) -> None:
    """No snapshot at all."""
    pen.create()
