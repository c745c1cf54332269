"""Tables of one format that need files of another's: each is asked for every file, by name or by address."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from lakewarden.pipeline.compare import compare as comparing
from tests.formats.paimon.tables import Lake, LakeTable, write_outside
from tests.jobs.orphan_cleanup.site import Site, data_files, plant, register
from tests.support.deployments import planned
from tests.support.lakes import age_everything, local_path

PAIMON = "\n[catalogs.stream]\nformat = 'paimon'\n[catalogs.stream.properties]\nwarehouse = 'file://{}'\n"


class Mixed(Site):
    """Iceberg tables in the catalog `lake`, Paimon tables in the catalog `stream`."""

    def config(self, name: str = "lakewarden.toml") -> str:
        path = super().config(name)
        with Path(path).open("a") as file:
            file.write(PAIMON.format(self.base / "stream"))
        return path


@pytest.fixture
def mixed(spark: object, tmp_path: Path) -> Iterator[Mixed]:
    with Mixed(tmp_path) as made:
        yield made


@pytest.mark.parametrize("most", [comparing.MOST_LIVE, -1], ids=["by hashes", "by the join"])
def test_files_of_a_paimon_table_that_an_iceberg_table_needs(
    mixed: Mixed, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    stream = Lake(mixed.base / "stream").create("t")
    stream.write("one", "two")
    live = next(stream.path.rglob("data-*"))
    added, late, orphan = (live.with_name(f"data-{uuid4()}-0{live.suffix}") for _ in range(3))
    for path in (added, late, orphan):
        shutil.copy(live, path)
    table = mixed.add("m.t", partitioned=False)
    register(table, f"file://{added}", f"file://{live}")
    mixed.old()
    age_everything(mixed.base / "stream")
    seen = mixed.plan(warden=mixed.warden)
    assert seen.orphans() == {late, orphan}
    assert {plan.refusal for plan in seen.plan.tables} == {None}
    register(table, f"file://{late}")
    result = mixed.apply(seen)
    assert result.deleted.files == 1
    assert (late.exists(), added.exists(), orphan.exists()) == (True, True, False)


@pytest.mark.parametrize("most", [comparing.MOST_LIVE, -1], ids=["by hashes", "by the join"])
def test_released_files_that_a_table_of_the_other_format_needs(
    mixed: Mixed, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each format's expiry lets files go that the other's table took in: before, between plan and apply, or never."""
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    mixed.sections |= {
        "snapshot_expiry": {"retain_min": 1, "retain_max": 1, "retain_hours": 0},
        "physical_deletion": {"visibility_delay_hours": 1, "rate_limit_ms": 0},
    }
    lake = Lake(mixed.base / "stream")
    stream, user = lake.create("t"), lake.create("user")
    stream.write("one", "two", "three")
    old = sorted(stream.path.rglob("data-*"))
    for day in ("one", "two", "three"):
        drop(stream, day)
    stream.write("last")
    table, reader = mixed.add("m.t", partitioned=False), mixed.add("m.reader", partitioned=False)
    gone = data_files(table)
    table.overwrite(rows(1))
    user.write("first")
    named = write_outside(user, local_path(table.location()) / "data")  # Paimon's own, below Iceberg's directory
    register(table, f"file://{named}")
    table.overwrite(rows(2))
    register(reader, f"file://{old[0]}")
    expired = mixed.warden.plan("snapshot-expiry")
    assert {plan.refusal for plan in expired.plan.tables} == {None}
    mixed.warden.apply(expired.path)
    mixed.later(2)
    seen = planned(mixed.warden, "physical-deletion")
    assert {plan.refusal for plan in seen.plan.tables} == {None}
    free = {local_path(row["uri"]) for row in seen.rows if row["verdict"] == "pending"}
    assert {*old, *gone, named} & free == {*old[1:], *gone}
    register(reader, f"file://{old[1]}")
    mixed.apply(seen)
    assert [path.exists() for path in old] == [True, True, False]
    assert named.exists()
    assert not any(path.exists() for path in gone)


def drop(table: LakeTable, day: str) -> None:
    commit = table.opened.new_batch_write_builder().new_commit()
    commit.truncate_partitions([{"dt": day}])
    commit.close()


def rows(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "part": ["a"]})


@pytest.mark.parametrize("most", [comparing.MOST_LIVE, -1], ids=["by hashes", "by the join"])
def test_files_of_an_iceberg_table_that_a_paimon_table_needs(
    mixed: Mixed, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By address, since bare names count in Paimon's own directories alone; and by one that came after the plan."""
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    stream = Lake(mixed.base / "stream").create("t")
    stream.write("one")
    data = local_path(mixed.add("m.t").location()) / "data"
    needed, late = write_outside(stream, data), write_outside(stream, data)
    orphan = needed.with_name(f"data-{uuid4()}-0.parquet")
    shutil.copy(needed, orphan)
    mixed.old()
    age_everything(mixed.base / "stream")
    commit = stream.path / "snapshot/snapshot-3"
    shutil.move(commit, mixed.base)  # not yet made
    stream.put("snapshot/LATEST", "2")
    seen = mixed.plan("lake.*", warden=mixed.warden)
    assert seen.orphans() == {late, orphan}
    shutil.move(mixed.base / commit.name, commit)
    stream.put("snapshot/LATEST", "3")
    mixed.apply(seen)
    assert (needed.exists(), late.exists(), orphan.exists()) == (True, True, False)


def test_odd_names_in_a_database_of_paimon_stop_nothing_else(mixed: Mixed) -> None:
    """A stray link and a name that is no UTF-8, through every job that plans."""
    stream = Lake(mixed.base / "stream").create("t")
    stream.write("one", "two")
    orphan = next(stream.path.rglob("data-*")).with_name(f"data-{uuid4()}-0.parquet")
    orphan.write_bytes(b"x")
    os.mkdir(os.fsencode(stream.path.parent) + b"/no\xffutf8")
    (stream.path.parent / "stray").symlink_to(mixed.base)
    planted = plant(mixed.add("m.t"), "data/{}.parquet")
    mixed.old()
    age_everything(stream.path)
    seen = mixed.plan(warden=mixed.warden)
    refusals = {table.identifier: table.refusal and table.refusal.code for table in seen.plan.tables}
    odd = {name for name, code in refusals.items() if code == "LW-STORE-003"}
    assert len(odd) == 2
    assert {name: code for name, code in refusals.items() if name not in odd} == {
        "lake.m.t": None, "stream.db.t": None,
    }  # fmt: skip
    assert seen.orphans() == {orphan, *planted}
    mixed.apply(seen)
    assert not any(path.exists() for path in (orphan, *planted))
    for job in ("snapshot-expiry", "partition-expiry", "physical-deletion"):
        tables = {table.identifier: table.refusal for table in mixed.warden.plan(job).plan.tables}
        assert all(tables.get(name) is None for name in ("lake.m.t", "stream.db.t"))
