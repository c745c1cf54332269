"""Groups of a branch: committed to it alone, judged by its head alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakewarden.formats.iceberg.compaction.head import content_of, live_files
from lakewarden.formats.iceberg.data.applicable import LiveFile
from lakewarden.formats.iceberg.manifests.files import DATA, read_list
from lakewarden.formats.iceberg.metadata.refs import head_of
from lakewarden.model.compaction import GroupFiles, Prepared
from lakewarden.model.errors import PlanOutdatedError
from tests.formats.iceberg.compaction.bench import POINTER, Bench

COLUMNS = Schema(NestedField(1, "id", LongType()))
AUDIT = "audit"


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Main has 1 and 2, the branch 3 and 4 as well."""
    found = Bench(tmp_path)
    table = found.make(COLUMNS)
    for number in (1, 2):
        table.append(ids(number))
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, AUDIT).commit()
    for number in (3, 4):
        table.append(ids(number), branch=AUDIT)
    return found


def on_branch(bench: Bench) -> list[LiveFile]:
    rows = read_list(bench.stores, head_of(bench.document, AUDIT) or {}).records
    return [one for row in rows if content_of(row) == DATA for one in live_files(bench.stores, row, 2)]


def prepared(bench: Bench, run: str = "run") -> Prepared:
    group = GroupFiles("g0", tuple(one.path for one in on_branch(bench)), AUDIT)
    return bench.compactor.prepare(POINTER, bench.document["table-uuid"], [group], 1 << 29, run)


def rows_of(bench: Bench, branch: str) -> list[int]:
    found = bench.table.scan(snapshot_id=bench.table.refs()[branch].snapshot_id).to_arrow()["id"].to_pylist()
    return sorted(found)


def test_only_the_branch_moves(bench: Bench) -> None:
    bench.change(lambda document: document["refs"][AUDIT].update({"max-ref-age-ms": 10**12}))
    before = bench.document
    ready = prepared(bench)
    landed = bench.commit(ready, bench.rewrite(ready))
    assert landed.groups == ["g0"]
    assert (rows_of(bench, AUDIT), rows_of(bench, "main")) == ([1, 2, 3, 4], [1, 2])
    assert len(on_branch(bench)) == 1
    after = bench.document
    assert after["current-snapshot-id"] == before["current-snapshot-id"]
    assert after["snapshot-log"] == before["snapshot-log"]
    assert after["refs"][AUDIT]["snapshot-id"] == landed.snapshot
    assert after["refs"][AUDIT]["max-ref-age-ms"] == 10**12
    made = after["snapshots"][-1]
    assert made["parent-snapshot-id"] == before["refs"][AUDIT]["snapshot-id"]
    # The run that goes on finds its commit on the branch, not on main.
    assert prepared(bench).done == ["g0"]


def test_an_append_to_either_branch_is_kept(bench: Bench) -> None:
    ready = prepared(bench)
    answers = bench.rewrite(ready)
    bench.table.append(ids(5))
    bench.table.append(ids(6), branch=AUDIT)
    assert bench.commit(ready, answers).groups == ["g0"]
    assert (rows_of(bench, AUDIT), rows_of(bench, "main")) == ([1, 2, 3, 4, 6], [1, 2, 5])


def test_a_file_that_only_the_branch_lost_takes_its_group_out(bench: Bench) -> None:
    ready = prepared(bench)
    answers = bench.rewrite(ready)
    bench.table.delete("id = 1", branch=AUDIT)
    landed = bench.commit(ready, answers)
    assert (landed.groups, list(landed.dropped)) == ([], ["g0"])
    assert (rows_of(bench, AUDIT), rows_of(bench, "main")) == ([2, 3, 4], [1, 2])


@pytest.mark.parametrize("left", ["gone", "a tag"])
def test_a_branch_that_is_no_branch_any_more(bench: Bench, left: str) -> None:
    ready = prepared(bench)
    group = GroupFiles("g0", tuple(one.path for one in on_branch(bench)), AUDIT)

    def drop(document: dict[str, Any]) -> None:
        ref = document["refs"].pop(AUDIT)
        if left == "a tag":
            document["refs"][AUDIT] = {"snapshot-id": ref["snapshot-id"], "type": "tag"}

    answers = bench.rewrite(ready)
    bench.change(drop)
    assert bench.commit(ready, answers).failed is not None
    with pytest.raises(PlanOutdatedError, match="no branch audit"):
        bench.compactor.prepare(POINTER, bench.document["table-uuid"], [group], 1 << 29, "again")
