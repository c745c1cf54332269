"""Some rows of a plan, for somebody who leafs through it: searched and counted without a row of Python for each file."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.model.errors import PlanEditedError
from lakewarden.model.plan import PartFile
from lakewarden.pipeline import columns as c
from lakewarden.storage.stores import Stores

# Rows that one question looks through: somebody waits for the answer.
MOST_LOOKED_AT = 400_000
_COLUMNS = ("table", "uri", "verdict", "reason", c.KIND, c.SIZE, c.MODIFIED)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows: of one verdict, with this text in the address or the table's name, and of no table that is hidden."""

    verdict: str = ""
    search: str = ""
    hidden: Collection[str] = ()

    @property
    def all(self) -> bool:
        return not (self.verdict or self.search or self.hidden)


@dataclass(frozen=True, slots=True)
class PlanPage:
    """Some rows, and how many there are; `cut` if only the first of them were looked at."""

    rows: list[dict[str, Any]]
    total: int
    cut: bool = False


def plan_page(
    stores: Stores, path: str, parts: Sequence[PartFile], wanted: Wanted, offset: int = 0, limit: int = 50
) -> PlanPage:
    """The rows from `offset` on. Raises PlanEditedError where a file of the plan is gone or changed."""
    rows: list[dict[str, Any]] = []
    seen = looked_at = 0
    for part in parts:
        if looked_at >= MOST_LOOKED_AT:
            return PlanPage(rows, seen, cut=True)
        if wanted.all and (seen + part.rows <= offset or len(rows) == limit):
            seen += part.rows
            continue
        looked_at += part.rows
        found = _matching(part_rows(stores, path, part, _COLUMNS), wanted)
        if len(rows) < limit and seen + found.num_rows > offset:
            rows += found.slice(max(0, offset - seen), limit - len(rows)).to_pylist()
        seen += found.num_rows
    return PlanPage(rows, seen)


def largest_prefixes(
    stores: Stores, path: str, parts: Sequence[PartFile], wanted: Wanted, most: int = 10
) -> tuple[list[dict[str, Any]], bool]:
    """The directories with the most bytes of these files, and whether only the first files were looked at."""
    sums: list[pa.Table] = []
    looked_at, cut = 0, False
    for part in parts:
        if looked_at >= MOST_LOOKED_AT:
            cut = True
            break
        looked_at += part.rows
        found = _matching(part_rows(stores, path, part, ("table", "uri", "verdict", c.SIZE)), wanted)
        prefix = pc.replace_substring_regex(found["uri"], r"[^/]*$", "")
        sums.append(
            pa.table({"prefix": prefix, "bytes": found[c.SIZE], "files": pc.if_else(pc.is_valid(found["uri"]), 1, 1)})
        )
    if not sums:
        return [], cut
    total = pa.concat_tables(sums).group_by("prefix").aggregate([("bytes", "sum"), ("files", "sum")])
    order = total.sort_by([("bytes_sum", "descending"), ("prefix", "ascending")]).slice(0, most)
    rows = [{"prefix": r["prefix"], "bytes": r["bytes_sum"] or 0, "files": r["files_sum"]} for r in order.to_pylist()]
    return rows, cut


def part_rows(stores: Stores, path: str, part: PartFile, columns: Sequence[str]) -> pa.Table:
    """One file of a plan, its digest checked."""
    try:
        data = stores.get(path + part.name)
    except FileNotFoundError as error:
        raise PlanEditedError(f"{part.name} of the plan is missing; nothing was done") from error
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise PlanEditedError(f"{part.name} of the plan was edited; nothing was done")
    # On this thread alone, as in rows.py.
    return pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(columns=list(columns), use_threads=False)


def _matching(rows: pa.Table, wanted: Wanted) -> pa.Table:
    for condition in _conditions(wanted):
        rows = rows.filter(condition)
    return rows


def _conditions(wanted: Wanted) -> Iterator[Any]:
    if wanted.verdict:
        yield pc.field("verdict") == wanted.verdict
    if wanted.hidden:
        yield ~pc.field("table").isin(pa.array(sorted(wanted.hidden), pa.string()))
    if wanted.search:
        named = pc.match_substring(pc.field("uri"), wanted.search, ignore_case=True)
        yield named | pc.match_substring(pc.field("table"), wanted.search, ignore_case=True)
