"""Groups of data files rewritten by the half of Iceberg's own Spark action that writes; the commit is not made here.

For what Arrow does not write exactly: z-order, sort orders by bucket, ORC and Avro files, some properties. Iceberg's reader
applies every delete and keeps the ids of rows. Its commit would lose equality deletes that came meanwhile, so what was
written is committed by our own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from lakewarden.model.engine_group import EngineFiles, EngineGroup
from lakewarden.model.errors import LakewardenError
from lakewarden.model.manifests import JavaTable
from lakewarden.pipeline.rewrite.manifests import check_runtime, first_line, in_transaction
from lakewarden.pipeline.spark.log_file import spark_failed

_ACTIONS = "org.apache.iceberg.spark.actions"
_SPLIT_MARGIN = 64 << 10
_RUNNERS = {
    "binpack": "SparkBinPackFileRewriteRunner",
    "sort": "SparkSortFileRewriteRunner",
    "zorder": "SparkZOrderFileRewriteRunner",
}


def has_runtime(spark: SparkSession) -> bool:
    """Whether Iceberg's runtime is on Spark's class path."""
    try:
        check_runtime(spark._jvm)
    except LakewardenError:
        return False
    return True


def rewritten_by_iceberg(
    spark: SparkSession, groups: Mapping[str, EngineGroup]
) -> dict[str, EngineFiles | LakewardenError]:
    """The new files of each group of one table, or why there are none."""
    table = next(iter(groups.values())).table
    try:
        check_runtime(spark._jvm)
        opened = in_transaction(spark, table)
        tasks = _tasks(opened, {path for group in groups.values() for path in group.paths})
    except Exception as error:
        return dict.fromkeys(groups, _failed(table, error))
    found: dict[str, EngineFiles | LakewardenError] = {}
    for name, group in groups.items():
        try:
            found[name] = _rewritten(spark, opened, group, [tasks[path] for path in group.paths])
        except Exception as error:
            found[name] = _failed(table, error)
    return found


def _rewritten(spark: SparkSession, opened: Any, group: EngineGroup, tasks: Sequence[Any]) -> EngineFiles:
    jvm: Any = spark._jvm
    wanted = jvm.java.util.ArrayList()
    for task in tasks:
        wanted.add(task)
    # With its deletes, and some more: one split a file, and no row group left over for a small one.
    split = sum(int(task.sizeBytes()) for task in tasks) // group.outputs + _SPLIT_MARGIN
    asked = jvm.org.apache.iceberg.actions.RewriteFileGroup(
        None, wanted, group.spec, group.target, split, group.outputs
    )
    runner = _runner(spark, opened, group)
    runner.init(jvm.java.util.HashMap())
    spec = opened.specs().get(group.spec)
    describe = jvm.org.apache.iceberg.ContentFileParser.toJson
    written = [json.loads(describe(file, spec)) for file in runner.rewrite(asked)]
    return EngineFiles(written, _counted(spark, opened, wanted, split) if group.counted else None)


def _counted(spark: SparkSession, opened: Any, tasks: Any, split: int) -> int:
    """How many rows Iceberg's reader finds in these files, less the deleted ones: read once more, with nothing written."""
    jvm: Any = spark._jvm
    name = str(uuid.uuid4())
    tables, staged = (
        jvm.org.apache.iceberg.spark.SparkTableCache.get(),
        jvm.org.apache.iceberg.spark.ScanTaskSetManager.get(),
    )
    try:
        tables.add(name, opened)
        staged.stageTasks(opened, name, tasks)
        return int(spark.read.format("iceberg").option("split-size", split).load(name).count())
    finally:
        tables.remove(name)
        staged.removeTasks(opened, name)


def _runner(spark: SparkSession, opened: Any, group: EngineGroup) -> Any:
    """What the action would rewrite a group with. Its constructors are for the action alone."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    made = loader.loadClass(f"{_ACTIONS}.{_RUNNERS[group.strategy]}")
    given = [spark._jsparkSession, opened]
    if group.strategy == "zorder":
        columns = jvm.java.util.ArrayList()
        for column in group.columns:
            columns.add(column)
        given.append(columns)
    constructor = next(one for one in made.getDeclaredConstructors() if one.getParameterCount() == len(given))
    constructor.setAccessible(True)
    gateway: Any = spark.sparkContext._gateway
    arguments = gateway.new_array(jvm.java.lang.Object, len(given))
    for place, one in enumerate(given):
        arguments[place] = one
    return constructor.newInstance(arguments)


def _tasks(opened: Any, paths: set[str]) -> dict[str, Any]:
    """Iceberg's own plan to read these files, with the deletes that apply to each."""
    found: dict[str, Any] = {}
    planned = opened.newScan().planFiles()
    try:
        each = planned.iterator()
        while each.hasNext():
            task = each.next()
            if (path := str(task.file().location())) in paths:
                found[path] = task
    finally:
        planned.close()
    return found


def _failed(table: JavaTable, error: Exception) -> LakewardenError:
    if isinstance(error, LakewardenError):
        return error
    return spark_failed(
        f"files of {table.name} could not be rewritten ({first_line(error)}); nothing of it was changed"
    )
