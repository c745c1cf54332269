"""Whether an Avro file ends where its writer ended it, or where a cut between two of its blocks would: by its blocks. Pure.

Writers begin a new block when the one before is full: it has reached an interval of so many bytes, all of them less a
row's. What is left at the end makes a last block that is smaller. A file whose last block is full, or that has none, may
have lost others, and nothing in it tells.
"""

from __future__ import annotations

from collections.abc import Sequence

# Intervals of the writers there are: fastavro and Rust, C++, Java. A block is at least as long, unless it is the last.
INTERVALS = (16_000, 16_384, 64_000)
# How much longer than its interval a block may be: one row more. Rows of manifest lists have hundreds of bytes.
LONG_ROW, LONG_ROWS = 4096, 4


def doubtful_end(blocks: Sequence[tuple[int, int]]) -> str:
    """Why the end may not be the writer's, in words; empty where it is. `blocks`: rows and unpacked bytes of each."""
    written = [(rows, size) for rows, size in blocks if rows]
    if not written:
        return "it has no rows"
    last = written[-1][1]
    earlier = [size for _, size in written[:-1]]
    row = max(LONG_ROW, LONG_ROWS * sum(size for _, size in written) // sum(rows for rows, _ in written))
    if not earlier:
        if last >= INTERVALS[-1] or any(interval <= last < interval + row for interval in INTERVALS):
            return f"its only block has {last:,} bytes, as many as writers let a block have before they begin the next"
    elif min(earlier) < INTERVALS[0]:
        return "its blocks are shorter than those of writers that are known"
    elif last > min(earlier) - row:
        return f"its last block has {last:,} bytes, as many as the blocks before it"
    return ""
