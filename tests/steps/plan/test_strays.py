"""Files of tasks that were tried again: the header alone counts, and no row of theirs is left to be read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.plan_files import write_part
from lakewarden.steps.compare.compare import empty_strays
from tests.support.worlds import World


def test_a_stray_is_emptied_and_what_is_named_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = world.warden._deployment
    directory = f"file://{world.base}/plan/"
    rows = pa.Table.from_pylist([{"uri": "file:///lake/a", "verdict": "orphan"}], schema=c.PLAN_ROWS)
    first, second = (write_part(deployment.stores, directory, rows) for _ in range(2))
    beside = world.base / "plan" / "files" / "notes.txt"
    beside.write_text("somebody's own", encoding="utf-8")
    empty_strays(deployment, directory, [first])
    place = world.base / "plan"
    assert pq.read_table(place / first.name).num_rows == 1
    assert pq.read_table(place / second.name).num_rows == 0
    assert beside.read_text(encoding="utf-8") == "somebody's own"

    def never(*_: object) -> None:
        raise AssertionError("what is empty is not written again")

    monkeypatch.setattr(type(deployment.stores), "put", never)
    empty_strays(deployment, directory, [first])
