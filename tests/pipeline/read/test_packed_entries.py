"""What manifests name, packed and unpacked: every entry is its own manifest's, whatever the order they were read in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.cache import ENTRY_ROWS, known_rows
from lakewarden.pipeline.read.entries import UNSIZED, Entries, packed_rows, ranges
from lakewarden.pipeline.read.hashing import key_hashes
from lakewarden.pipeline.read.to_read import table_of


def manifests(*rows: tuple[str, int | None, str | None]) -> pa.Table:
    schema = pa.schema([ENTRY_ROWS.field(name) for name in ("path", "length", c.HOME)])
    return table_of(rows, schema)


def marks(*rows: tuple[int, str, int | None]) -> pa.Table:
    return table_of([(number, key, 0, c.MARK_LIVE, size) for number, key, size in rows], c.NAMED)


def test_each_entry_is_its_own_manifests() -> None:
    named = marks(
        (9, "file:///t/b/1", 5), (4, "file:///t/a/1", None), (9, "file:///t/c/2", 1 << 40), (4, "s3://b/x", 7)
    )
    asked = manifests(("file:///m4", 1, None), ("file:///m5", 1, None), ("file:///m9", 1, None))
    rows, keys = packed_rows(asked, [4, 5, 9], named, "id")
    found = Entries.of(rows)
    assert found.counts.tolist() == [2, 0, 2]
    assert found.starts.tolist() == [0, 2, 2, 4]
    names = ["file:///t/a/1", "s3://b/x", "file:///t/b/1", "file:///t/c/2"]
    assert keys[c.KEY].to_pylist() == names
    assert keys["path"].to_pylist() == ["file:///m4", "file:///m4", "file:///m9", "file:///m9"]
    assert found.hashes.tolist() == key_hashes(pa.array(names)).tolist()
    # A size that is not recorded, or that four bytes do not hold, is asked of the file itself.
    assert found.sizes.tolist() == [UNSIZED, 7, 5, UNSIZED]
    assert rows["prefix"].to_pylist() == ["", "", "file:///t/"]
    assert [set(several) for several in rows["directories"].to_pylist()] == [
        {"file:///t/a/"},
        set(),
        {"file:///t/b/", "file:///t/c/"},
    ]


def test_rows_that_were_cut_out_of_a_column_are_unpacked_as_they_are() -> None:
    named = marks(*((number, f"file:///t/{number}/{i}", i) for number in range(5) for i in range(number)))
    rows, _ = packed_rows(manifests(*((f"m{n}", 1, None) for n in range(5))), list(range(5)), named, "id")
    whole, cut = Entries.of(rows), Entries.of(pa.concat_tables([rows.slice(3), rows.slice(1, 1)]))
    assert cut.counts.tolist() == [3, 4, 1]
    picked = ranges(whole.starts[[3, 4, 1]], whole.counts[[3, 4, 1]])
    assert np.array_equal(cut.hashes, whole.hashes[picked])
    assert np.array_equal(cut.sizes, whole.sizes[picked])


@pytest.mark.parametrize(
    "other",
    [
        ("file:///m", 2, None),
        ("file:///m2", 1, None),
        ("file:///m", 1, ""),
        ("file:///m", 1, "name:"),
        ("\nfile:///m", 1, None),
    ],
)
def test_a_manifest_is_known_by_all_of_its_key(other: tuple[str, int, str | None]) -> None:
    mine = manifests(("file:///m", 1, None))
    assert known_rows(mine, mine).tolist() == [0]
    assert known_rows(mine, manifests(other)).tolist() == [-1]
    both = manifests(other, ("file:///m", 1, None))
    assert known_rows(mine, both).tolist() == [1]


def test_names_with_lines_in_them_make_no_two_manifests_one() -> None:
    one, other = manifests(("b\nc", 1, "a")), manifests(("c", 1, "a\nb"))
    assert known_rows(one, other).tolist() == [-1]
