"""What holders need, by name: the same here and in Spark, and the same as each holder's own need."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from lakewarden.model.table import Hold
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare import by_join
from lakewarden.pipeline.compare.by_hash import sum_up
from lakewarden.pipeline.compare.holders import HOLDERS, Holders, needed
from lakewarden.pipeline.compare.marks import marks_here
from lakewarden.pipeline.compare.needs import Contents, Named, NamesKept
from lakewarden.pipeline.read.cache import KEY_ROWS, KEYS, CacheWriter
from lakewarden.pipeline.read.entries import UNSIZED, Entries
from lakewarden.pipeline.read.hashing import key_hashes
from lakewarden.pipeline.read.names import KIND_CODES, SOFT
from lakewarden.pipeline.read.places import Places
from lakewarden.pipeline.read.to_read import ToRead, table_of
from lakewarden.storage.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA, MANIFEST = KIND_CODES[Kind.DATA], KIND_CODES[Kind.MANIFEST]
MANIFESTS, FILES = 8, 12


class Lake:
    """Three tables of many holders, which share manifests; each manifest adds and deletes files."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        holds = [str(hold) for hold in Hold]
        self.holders = [
            (i, chance.randrange(3), chance.choice(holds), chance.choice([c.MARK_LIVE, c.MARK_RELEASED]))
            for i in range(12)
        ]
        self.entries = {
            n: [(f"file:///f{chance.randrange(FILES)}", chance.random() < 0.6) for _ in range(6)]
            for n in range(MANIFESTS)
        }
        self.named = sorted({(i, chance.randrange(MANIFESTS), chance.random() < 0.5) for i in range(12) for _ in "ab"})

    def asked(self) -> Named:
        nothing = ToRead(c.LISTS.empty_table(), c.MANIFESTS.empty_table(), c.MARKS.empty_table())
        rows = [(holder, "x", soft, path(n), 1, None, None, 0, None) for holder, n, soft in self.named]
        manifests = table_of(rows, c.MANIFESTS)
        numbers = np.array([n for _, n, _ in self.named], np.int64)
        once = table_of([(n, "x", False, path(n), 1, None, None, 0, None) for n in range(MANIFESTS)], c.MANIFESTS)
        return Named(Holders(nothing, table_of(self.holders, HOLDERS)), manifests, manifests, numbers, once, {})

    def names(self) -> pa.Table:
        return table_of(
            [("one", path(n), key, DATA, added) for n, entries in self.entries.items() for key, added in entries],
            KEY_ROWS,
        )

    def expected(self) -> set[tuple[int, str, int, int]]:
        """Each holder by itself, and of a file that several of one table and mark need the least kind."""
        found: dict[tuple[int, str, int], int] = {}
        for holder, table, hold, mark in self.holders:
            mine = [(n, SOFT * soft) for its, n, soft in self.named if its == holder]
            kinds: dict[str, int] = {}
            times: Counter[tuple[str, bool]] = Counter()
            for number, soft in mine:
                found[table, path(number), mark] = min(found.get((table, path(number), mark), 999), MANIFEST + soft)
                for key, added in self.entries[number]:
                    times[key, added] += 1
                    kinds[key] = min(kinds.get(key, 999), DATA + soft)
            for key, kind in kinds.items():
                if needed(hold, times[key, True], times[key, False]):
                    found[table, key, mark] = min(found.get((table, key, mark), 999), kind)
        return {(table, key, kind, mark) for (table, key, mark), kind in found.items()}


def path(number: int) -> str:
    return f"file:///m{number}.avro"


def least(marks: pa.Table) -> set[tuple[int, str, int, int]]:
    """MARKS with each file once a table and mark."""
    rows = marks.group_by([c.TABLE, c.KEY, c.MARK]).aggregate([(c.KIND, "min")]).to_pylist()
    return {(row[c.TABLE], row[c.KEY], row[f"{c.KIND}_min"], row[c.MARK]) for row in rows}


@pytest.mark.parametrize("seed", range(20))
def test_the_holders_of_a_table_need_together_what_each_of_them_needs(seed: int) -> None:
    lake = Lake(seed)
    names = NamesKept(dict.fromkeys(range(MANIFESTS), "one"), (), {}, ())
    assert least(marks_here(lake.asked(), names, lake.names())) == lake.expected()


def test_spark_marks_the_same(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(3):
        lake = Lake(seed)
        file = CacheWriter(Stores(), f"file://{tmp_path}/").write(KEYS, lake.names())
        names = NamesKept(dict.fromkeys(range(MANIFESTS), "one"), (file,), {}, ())
        assert least(by_join.marks(spark, lake.asked(), names, Stores()).toArrow()) == lake.expected()


def test_a_manifest_that_could_not_be_read_names_nothing() -> None:
    lake = Lake(1)
    names = NamesKept({}, (), {}, ())
    assert {kind % SOFT for _, _, kind, _ in least(marks_here(lake.asked(), names, lake.names()))} == {MANIFEST}


@pytest.mark.parametrize("seed", range(20))
def test_hashes_have_every_file_that_any_holder_needs(seed: int) -> None:
    """Whoever needs all that is named, beside holders of the same table that count: a rule is never another holder's."""
    lake = Lake(seed)
    # A manifest that one holder's lists name twice is one manifest.
    lake.named = sorted({(holder, number): (holder, number, soft) for holder, number, soft in lake.named}.values())
    rows = [row for several in lake.entries.values() for row in several]
    entries = Entries(
        np.array([len(several) for several in lake.entries.values()]),
        key_hashes(pa.array([key for key, _ in rows], pa.string())),
        np.array([added for _, added in rows], bool),
        np.full(len(rows), DATA, np.int8),
        np.full(len(rows), UNSIZED, np.uint32),
    )
    contents = Contents(np.array(list(lake.entries)), entries, np.zeros(len(rows), np.int32), {}, ())
    found = sum_up(lake.asked(), contents, Places.of(())).live
    for mark, hashes in ((c.MARK_LIVE, found.hashes), (c.MARK_RELEASED, found.released)):
        keys = sorted({key for _, key, _, its in lake.expected() if its == mark})
        assert set(hashes.tolist()) == set(key_hashes(pa.array(keys, pa.string())).tolist())
