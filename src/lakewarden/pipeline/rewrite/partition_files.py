"""The data files of one partition as grouping sees them: how large each is, and how much of which deletes applies to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.compaction import PartitionFile


def partition_files(rows: pa.Table) -> Iterator[PartitionFile]:
    """DATA_FILES of one partition of one table in, with the deletes that reach it from everywhere.

    A delete that names one file is that file's own, and goes with it. Any other applies to the files that are older: so it
    is of equality deletes by the specification. Position deletes of several files may also be about files of their own
    commit; which, only their rows tell, so they are not counted there. That is what makes the next plan empty: a new file
    carries the number of the snapshot it was read from, and no delete up to that one counts for it any more.

    A file that was added twice (an import that was repeated) shows its rows twice. It is left out: only its owner can say
    what is right.
    """
    is_data = pc.equal(rows["content"], 0)
    data, deletes = rows.filter(is_data), rows.filter(pc.invert(is_data))
    named = pc.and_(pc.equal(deletes["content"], 1), pc.is_valid(deletes["about"]))
    sums = deletes.filter(named).group_by("about").aggregate([("rows", "sum"), ("size", "sum"), ([], "count_all")])
    own = {row["about"]: row for row in sums.to_pylist()}
    shared = deletes.filter(pc.invert(named))
    numbers = pc.fill_null(shared["sequence"], 0).to_numpy()
    oldest_first = np.argsort(numbers)
    numbers = numbers[oldest_first]
    weights = np.concatenate([[0], np.cumsum(pc.fill_null(shared["size"], 0).to_numpy()[oldest_first])])
    before = np.searchsorted(numbers, pc.fill_null(data["sequence"], 0).to_numpy(), side="right")
    counts, sizes = len(numbers) - before, weights[-1] - weights[before]
    columns = (data[name].to_pylist() for name in ("path", "size", "rows"))
    places = pc.fill_null(data["sequence"], 0).to_pylist()
    entries = Counter(data["path"].to_pylist())
    nothing = {"rows_sum": 0, "size_sum": 0, "count_all": 0}
    for path, size, count, place, many, heavy in zip(*columns, places, counts.tolist(), sizes.tolist(), strict=True):
        if entries[path] > 1:
            continue
        mine = own.get(path, nothing)
        yield PartitionFile(
            path,
            size,
            count,
            deleted=min(count, mine["rows_sum"]),
            own=mine["count_all"],
            shared=many,
            delete_bytes=int(mine["size_sum"] + heavy),
            place=place,
        )


def is_hot(rows: pa.Table, fresh: Collection[int]) -> bool:
    """Whether one of these snapshots brought a file, of data or deletes, to the partition."""
    if not fresh:
        return False
    return bool(pc.any(pc.is_in(rows["snapshot"], pa.array(sorted(fresh), pa.int64()))).as_py())
