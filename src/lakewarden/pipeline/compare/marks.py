"""MARKS of what holders need, by name: the part that is the same for a join in Spark and for few names, and the latter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewarden.model.roots import match_key
from lakewarden.model.table import Hold
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.holders import HOLDER, needed
from lakewarden.pipeline.compare.needs import Named, NamesKept
from lakewarden.pipeline.read.names import KIND_CODES, SOFT
from lakewarden.pipeline.read.to_read import table_of

LENGTHS = pa.schema([(c.KEY, pa.string()), ("length", pa.int64())])


def manifests_once(named: Named, names: NamesKept) -> pa.Table:
    """Opened manifests by holder, once for all those of a table that need all of them: holder, path, softness, and `kept`,
    the id of the file in the cache that has the manifest's names."""
    own = named.opened[c.TABLE].to_numpy()
    # Whoever counts how often a file is added has each row to itself.
    alone = np.where(named.holders.holds[own] == str(Hold.ALL), -1, np.arange(len(own)))
    columns = [named.holders.firsts[own], named.numbers, alone, named.opened["soft"]]
    rows = pa.table(columns, [HOLDER, "number", "alone", "soft"])
    found = rows.group_by([HOLDER, "number", "alone"]).aggregate([("soft", "min")])
    numbers = found["number"].combine_chunks()
    ids = pa.array([names.ids.get(number) for number in numbers.to_pylist()], pa.string())
    columns = [found[HOLDER], named.once["path"].take(numbers), found["soft_min"], ids]
    return pa.table(columns, [HOLDER, "path", "soft", "kept"])


def certain_marks(named: Named) -> pa.Table:
    """MARKS by holder of what needs no manifest to be known: what metadata names, the manifests, and files beside them."""
    holders = pa.array(named.holders.firsts[named.by_holder[c.TABLE].to_numpy()])
    rows = named.by_holder.select(["path", c.HOME, "soft"]).append_column(HOLDER, holders)
    manifest = KIND_CODES[Kind.MANIFEST]
    themselves = [
        (row[HOLDER], match_key(row["path"], row[c.HOME]), manifest + SOFT * row["soft_min"], c.MARK_LIVE)
        for row in rows.group_by([HOLDER, "path", c.HOME]).aggregate([("soft", "min")]).to_pylist()
    ]
    return pa.concat_tables([named.holders.to_read.named, table_of(themselves, c.MARKS)])


def manifest_lengths(named: Named) -> pa.Table:
    """What each manifest is compared by, and its length as its list says it."""
    lengths = {match_key(key.path, key.home): key.length for key in named.keys}
    return table_of(list(lengths.items()), LENGTHS)


def marks_here(named: Named, names: NamesKept, rows: pa.Table) -> pa.Table:
    """MARKS as `by_join.marks` gives them, from KEY_ROWS that fit here."""
    entries = manifests_once(named, names).join(rows, ["kept", "path"], join_type="inner")
    soft = pa.array(entries["soft"].to_numpy(zero_copy_only=False) * SOFT | entries[c.KIND].to_numpy(), pa.int32())
    entries = entries.select([HOLDER, c.KEY, "added"]).append_column(c.KIND, soft)
    sums = [(c.KIND, "min"), ("added", "sum"), ("added", "count")]
    counted = entries.group_by([HOLDER, c.KEY]).aggregate(sums)
    adds = counted["added_sum"].to_numpy().astype(np.int64)
    holds = named.holders.holds[counted[HOLDER].to_numpy()]
    stays = counted.filter(pa.array(needed(holds, adds, counted["added_count"].to_numpy() - adds), pa.bool_()))
    certain = certain_marks(named).rename_columns([HOLDER, c.KEY, c.KIND, c.MARK]).drop_columns([c.MARK])
    found = stays.select([HOLDER, c.KEY, f"{c.KIND}_min"]).rename_columns(certain.column_names)
    both = pa.concat_tables([found.cast(certain.schema), certain])
    given = named.holders.rows.take(both[HOLDER].combine_chunks())
    return pa.table([given[c.TABLE], both[c.KEY], both[c.KIND], given[c.MARK]], schema=c.MARKS)
