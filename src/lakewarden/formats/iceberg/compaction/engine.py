"""What is left to Iceberg's own writers in Spark: which tables, in which order of rows, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakewarden.formats.iceberg.data.columns import current_schema, current_sort_order
from lakewarden.formats.iceberg.data.order import BY_ENGINE, NewFile, Order, Rewritten
from lakewarden.model.compaction import CompactionPolicy, GroupFiles, outputs_of
from lakewarden.model.engine_group import EngineFiles, EngineGroup
from lakewarden.model.errors import (
    IncompleteManifestError,
    LakewardenError,
    LeftToEngineError,
    UnsupportedTableError,
)
from lakewarden.model.manifests import JavaTable

FORMAT = "write.format.default"
FORMATS = ("parquet", "avro", "orc")
ZORDER = "zorder"


def check_engine(document: Mapping[str, Any], policy: CompactionPolicy) -> None:
    """Raise LeftToEngineError for a format or an order of rows that only Iceberg's own writers know."""
    wanted = str((document.get("properties") or {}).get(FORMAT, "parquet")).lower()
    if wanted not in FORMATS:
        raise UnsupportedTableError(f"its files are {wanted}, which nobody here writes; nothing was touched")
    if policy.strategy == ZORDER:
        columns = _columns(policy)
        known = {str(field["name"]) for field in current_schema(document)["fields"]}
        if not columns or not set(columns) <= known:
            raise UnsupportedTableError(
                f"the strategy is zorder by {policy.zorder_columns!r}, which names no columns of it; nothing was touched",
                hint='Set zorder_columns = "a,b" to columns of the table.',
            )
        raise LeftToEngineError("its rows are to come in z-order")
    if wanted != "parquet":
        raise LeftToEngineError(f"its files are {wanted}, not Parquet")


def engine_of(document: Mapping[str, Any], policy: CompactionPolicy) -> str:
    """How Iceberg's writers are to arrange the rows."""
    if policy.strategy == ZORDER:
        return f"{ZORDER}:{','.join(_columns(policy))}"
    return "sort" if current_sort_order(document) is not None else "binpack"


def engine_group(
    group: GroupFiles, spec: int, partition: Mapping[str, Any], order: Order, target: int, table: JavaTable
) -> EngineGroup:
    """A group as the engine is asked for it."""
    strategy, _, columns = group.engine.partition(":")

    def answer(found: EngineFiles | LakewardenError) -> str:
        if isinstance(found, LakewardenError):
            return Rewritten(order.group, code=found.code, message=found.message, hint=found.hint).dumps()
        try:
            return _answer(order, spec, partition, found).dumps()
        except LakewardenError as error:
            return Rewritten(order.group, code=error.code, message=error.message, hint=error.hint).dumps()

    size = sum(one.size for one in order.inputs)
    return EngineGroup(
        table,
        tuple(one.path for one in order.inputs),
        spec,
        strategy,
        tuple(name for name in columns.split(",") if name),
        order.target,
        outputs_of(size, target),
        any(one.deletes for one in order.inputs),
        answer,
    )


def _answer(order: Order, spec: int, partition: Mapping[str, Any], found: EngineFiles) -> Rewritten:
    """What was written, once it is proven to be of this partition and to have no row too many or too few.

    Without deletes the manifests say how many rows there are; with them Iceberg's reader was asked, apart from the writing.
    """
    files = found.files
    rows, written = sum(one.rows for one in order.inputs), sum(int(file["record-count"]) for file in files)
    expected = found.rows if any(one.deletes for one in order.inputs) else rows
    if expected is None or not written == expected <= rows:
        raise IncompleteManifestError(
            f"{rows} rows became {written} in files of Iceberg's own writers, and should have become "
            f"{'a number that nobody counted' if expected is None else expected}; nothing of the group was changed"
        )
    if any(int(file["spec-id"]) != spec or len(file["partition"]) != len(partition) for file in files):
        raise IncompleteManifestError("Iceberg's own writers wrote into another partition; nothing was changed")
    return Rewritten(order.group, rows, rows - written, tuple(_new_file(file) for file in files), way=BY_ENGINE)


def _new_file(found: Mapping[str, Any]) -> NewFile:
    def by_column(name: str) -> dict[int, Any]:
        pairs = found.get(name) or {"keys": [], "values": []}
        return {int(key): value for key, value in zip(pairs["keys"], pairs["values"], strict=True)}

    return NewFile(
        path=str(found["file-path"]),
        size=int(found["file-size-in-bytes"]),
        rows=int(found["record-count"]),
        column_sizes=by_column("column-sizes"),
        value_counts=by_column("value-counts"),
        null_counts=by_column("null-value-counts"),
        nan_counts=by_column("nan-value-counts"),
        lower={number: str(text).lower() for number, text in by_column("lower-bounds").items()},
        upper={number: str(text).lower() for number, text in by_column("upper-bounds").items()},
        split_offsets=tuple(int(at) for at in found.get("split-offsets") or ()),
        sort_order_id=int(found.get("sort-order-id") or 0),
        format=str(found["file-format"]).upper(),
    )


def _columns(policy: CompactionPolicy) -> list[str]:
    return [name.strip() for name in policy.zorder_columns.split(",") if name.strip()]
