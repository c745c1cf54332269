"""What one table needs now, by name, read here: before a batch goes there is no time for Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.roots import match_key
from lakewarden.model.table import TableState
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.holders import Holders, by_holder, kept
from lakewarden.pipeline.compare.needs import each_once
from lakewarden.pipeline.read.manifests import ReadTask, once, read_entries, read_lists
from lakewarden.pipeline.read.notes import NOTE


@dataclass(frozen=True)
class Needs:
    """What one table needs: keys of files, and tasks' notes of what could not be read."""

    keys: pa.Array
    notes: tuple[str, ...]


def needs_of(state: TableState, homes: Mapping[str, str], read: ReadTask) -> Needs:
    """Every file that a holder of the table needs; each manifest is read once, however many holders name it."""
    holders = Holders.of([(0, state, state.held)], homes)
    lists = pa.Table.from_batches(read_lists(read)(iter(holders.to_read.lists.to_batches())), schema=c.MANIFESTS)
    noted = pc.starts_with(lists["path"], NOTE)
    notes = lists.filter(noted)["path"].to_pylist()
    named = once(pa.concat_tables([lists.filter(pc.invert(noted)), holders.to_read.manifests]))
    opened = named.filter(pc.not_equal(named["content"], c.CONTENT_SIDECAR)).sort_by("soft")
    numbers, firsts = each_once(opened)
    first = opened.take(pa.array(firsts))
    first = first.set_column(0, c.TABLE, pa.array(np.arange(len(firsts)), pa.int32())).select(c.MANIFESTS.names)
    marks = [c.NAMED.empty_table()]
    for _, found, told in read_entries(read)(iter(first.cast(c.MANIFESTS).to_batches())):
        marks.append(found)
        notes += told
    entries = pa.concat_tables(marks).sort_by(c.TABLE).combine_chunks()
    keys = pc.dictionary_encode(entries[c.KEY].combine_chunks())
    ids = keys.indices.to_numpy()
    added = (entries[c.MARK].to_numpy() & c.MARK_DELETED) == 0
    starts = np.searchsorted(entries[c.TABLE].to_numpy(), np.arange(len(firsts) + 1))
    stays = [np.empty(0, ids.dtype)]
    for holder, rows in by_holder(opened[c.TABLE].to_numpy()):
        places = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in np.unique(numbers[rows]).tolist()])
        mine = kept(str(holders.holds[holder]), ids[places], added[places], np.zeros(len(places), np.int8))
        stays.append(ids[places][mine])
    themselves = [match_key(*pair) for pair in zip(named["path"].to_pylist(), named[c.HOME].to_pylist(), strict=True)]
    chunks = [keys.dictionary.take(pa.array(np.unique(np.concatenate(stays)))), pa.array(themselves, pa.string())]
    return Needs(pa.concat_arrays([*chunks, *holders.to_read.named[c.KEY].chunks]), tuple(notes))
