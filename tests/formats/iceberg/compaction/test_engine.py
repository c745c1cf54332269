"""What Iceberg's own writers answer is committed only if every row is accounted for."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.formats.iceberg.compaction.engine import engine_group
from lakewarden.formats.iceberg.data.order import POSITION, DeleteFile, Input, Order, Rewritten
from lakewarden.model.compaction import GroupFiles
from lakewarden.model.engine_group import EngineFiles
from lakewarden.model.manifests import JavaTable

DELETE = DeleteFile("s3://b/d", POSITION, 10, 2)


def answered(written: int, counted: int | None, *, deletes: bool, spec: int = 0) -> Rewritten:
    inputs = tuple(Input(f"s3://b/{n}", 100, 6, 1, deletes=(DELETE,) if deletes else ()) for n in range(2))
    order = Order("g", 2, {"type": "struct", "fields": []}, inputs, "s3://b/out", 1 << 20)
    group = GroupFiles("g", tuple(one.path for one in inputs), engine="binpack")
    asked = engine_group(group, 0, {}, order, 1 << 20, JavaTable("t", "s3://b/v1.json", {}))
    assert asked.counted == deletes
    file: dict[str, Any] = {"file-path": "s3://b/new", "file-size-in-bytes": 50, "file-format": "orc"}
    return Rewritten.loads(
        asked.answer(EngineFiles([{**file, "record-count": written, "spec-id": spec, "partition": {}}], counted))
    )


@pytest.mark.parametrize(("written", "counted", "deletes"), [(12, None, False), (10, 10, True), (12, 12, True)])
def test_as_many_rows_as_there_are(written: int, counted: int | None, deletes: bool) -> None:
    found = answered(written, counted, deletes=deletes)
    assert (found.code, found.rows_in, found.rows_deleted) == (None, 12, 12 - written)


@pytest.mark.parametrize(
    ("written", "counted", "deletes"),
    [
        (11, None, False),
        (13, None, False),
        (11, 11, False),  # nothing is deleted, whatever the reader finds
        (9, 10, True),
        (11, 10, True),
        (13, 13, True),
        (10, None, True),
    ],
)
def test_one_row_too_many_or_too_few_is_not_committed(written: int, counted: int | None, deletes: bool) -> None:
    found = answered(written, counted, deletes=deletes)
    assert found.code == "LW-TABLE-002"
    assert f"12 rows became {written}" in str(found.message)
    assert found.files == ()


def test_another_partition_is_not_committed() -> None:
    assert "another partition" in str(answered(12, None, deletes=False, spec=1).message)
