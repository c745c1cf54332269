"""The Spark jobs of the quick way: one reads the metadata into hashes, one lists, compares and writes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewarden.model.ports import Shard
from lakewarden.model.roots import BY_NAME, Root
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.by_join import Cached, dealt, local, manifests_of
from lakewarden.pipeline.compare.hashes import REACHED_DDL, Live, hash_manifests, key_hashes, list_and_judge
from lakewarden.pipeline.compare.plan_files import PartTask
from lakewarden.pipeline.read.inventory import inventories_table, read_inventory, read_parquet
from lakewarden.pipeline.read.listing import list_shards, shards_table
from lakewarden.pipeline.read.manifests import ReadTask, once, read_lists
from lakewarden.pipeline.read.to_read import ToRead

FEW_LISTS = 1000


@dataclass
class Reach:
    """What one table reaches: by directory of its own the packed hashes and kinds, and the names of files elsewhere."""

    packed: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    outside: list[tuple[str, int]] = field(default_factory=list)


def reach(
    spark: SparkSession, wanted: ToRead, own: Mapping[int, tuple[str, ...]], read: ReadTask
) -> tuple[dict[int, Reach], list[str]]:
    """What each table reaches by the wanted lists and manifests, and the tasks' notes."""
    found: dict[int, Reach] = {}
    notes: list[str] = []
    if not wanted.lists.num_rows and not wanted.manifests.num_rows:
        return found, notes
    manifests = (
        manifests_here(spark, wanted, read)
        if wanted.lists.num_rows <= FEW_LISTS
        else manifests_of(spark, wanted, read, Cached())
    )
    for row in manifests.mapInArrow(hash_manifests(read, own), REACHED_DDL).toArrow().to_pylist():
        if row[c.MARK] == c.MARK_NOTE:
            notes.append(row[c.KEY])
            continue
        table = found.setdefault(row[c.TABLE], Reach())
        if row["hashes"] is None:
            table.outside.append((row[c.KEY], row[c.KIND]))
        else:
            table.packed.append((row[c.KEY], row["hashes"], row["kinds"]))
    return found, notes


def manifests_here(spark: SparkSession, wanted: ToRead, read: ReadTask) -> DataFrame:
    """MANIFESTS of a few lists, read by the driver: for a small fleet a Spark stage costs more than its lists."""
    found = pa.Table.from_batches(read_lists(read)(wanted.lists.to_batches()), schema=c.MANIFESTS)
    return dealt(spark, once(pa.concat_tables([found, wanted.manifests])))


def live_under(prefixes: Sequence[str], reached: Mapping[int, Reach], named: pa.Table) -> Live:
    """The live files under the swept roots: what tables reach, and MARKS of what their metadata names."""
    order = sorted(prefixes)

    def under(key: str) -> bool:
        if key.startswith(BY_NAME):
            return True
        at = bisect_right(order, key) - 1
        return at >= 0 and key.startswith(order[at])

    hashes, tables, kinds = [], [], []
    outside: list[tuple[int, str, int]] = []
    for number, table in reached.items():
        outside += [(number, key, kind) for key, kind in table.outside if under(key)]
        for prefix, packed, codes in table.packed:
            if under(prefix):
                hashes.append(np.frombuffer(packed, np.uint64))
                kinds.append(np.frombuffer(codes, np.int8))
                tables.append(np.full(len(codes), number, np.int32))
    outside += [
        (number, key, kind)
        for number, key, kind in zip(*(named[n].to_pylist() for n in (c.TABLE, c.KEY, c.KIND)), strict=True)
        if under(key)
    ]
    if outside:
        numbers, keys, kind_codes = zip(*outside, strict=True)
        hashes.append(key_hashes(pa.array(keys, pa.string())))
        tables.append(np.array(numbers, np.int32))
        kinds.append(np.array(kind_codes, np.int8))
    return Live.of(hashes, tables, kinds)


def facts_of_files(spark: SparkSession, uris: Sequence[str], live: Live, part: PartTask, read: ReadTask) -> pa.Table:
    """FACTS of files that are already known: LISTED rows in Parquet files of ours."""
    files = local(spark, pa.table({"uri": pa.array(uris, pa.string())}))
    step = list_and_judge(read_parquet(read.stores, c.LISTED), live, part)
    return files.mapInArrow(step, c.ddl(c.FACTS)).toArrow()


def facts(
    spark: SparkSession,
    shards: list[Shard],
    inventories: Sequence[tuple[str, Sequence[Root]]],
    live: Live,
    part: PartTask,
    read: ReadTask,
) -> pa.Table:
    """FACTS of all roots; PLAN_ROWS lie in the plan's directory."""
    found = []
    if shards:
        step = list_and_judge(list_shards(read.stores), live, part)
        found.append(local(spark, shards_table(shards)).mapInArrow(step, c.ddl(c.FACTS)).toArrow())
    if inventories:
        step = list_and_judge(read_inventory(read.stores), live, part)
        found.append(local(spark, inventories_table(inventories)).mapInArrow(step, c.ddl(c.FACTS)).toArrow())
    return pa.concat_tables([c.FACTS.empty_table(), *found])
