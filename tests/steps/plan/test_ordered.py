"""A plan's rows in their order: the same in memory and through the temporary file."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.model.errors import StateUnwritableError
from lakewarden.pipeline import columns as c
from lakewarden.steps.plan import ordered
from lakewarden.steps.plan.ordered import OrderedRows

# Names in an order that differs by bytes, by code points and by UTF-16, and roots without files or without directories.
NAMES = [f"file:///lake/{word}-{n}" for n in range(40) for word in ("a", "A", "é", "\ue000", "\U0001f600", "z%20")]
DIRECTORIES = ["file:///lake/d/", "file:///lake/d/inner/", "file:///lake/a/"]


def rows_of(pairs: list[tuple[int, str]]) -> pa.Table:
    blank: dict[str, Any] = dict.fromkeys(c.PLAN_ROWS.names)
    rows = [{**blank, "uri": uri, c.ROOT: root, "table": "t", "verdict": "orphan"} for root, uri in pairs]
    return pa.Table.from_pylist(rows, schema=c.PLAN_ROWS)


def pairs_of(rows: OrderedRows) -> list[tuple[int, str]]:
    return [pair for table in rows for pair in zip(table[c.ROOT].to_pylist(), table["uri"].to_pylist(), strict=True)]


def ordered_by_hand(pairs: list[tuple[int, str]]) -> list[tuple[int, str]]:
    files = sorted(pair for pair in pairs if not pair[1].endswith("/"))
    directories = sorted((pair for pair in pairs if pair[1].endswith("/")), key=lambda pair: pair[1], reverse=True)
    return sorted([*files, *directories], key=lambda pair: pair[0])


@pytest.fixture
def pairs() -> list[tuple[int, str]]:
    found = [(root, name) for root in (2, 3, 7, 9) for name in NAMES]
    found += [(root, name) for root in (1, 3, 7, 8, 12) for name in DIRECTORIES]
    random.Random(7).shuffle(found)
    return found


def collected(pairs: list[tuple[int, str]], parts: int) -> OrderedRows:
    rows = OrderedRows()
    for start in range(parts):
        rows.add(rows_of(pairs[start::parts]))
    rows.settle()
    return rows


def few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "ROWS_A_RUN", 100)
    monkeypatch.setattr(ordered, "ROWS_A_CHUNK", 7)


@pytest.mark.parametrize("parts", [1, 5, 23])
def test_the_order_is_the_same_through_the_temporary_file(
    pairs: list[tuple[int, str]], parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ordered_by_hand(pairs)
    assert pairs_of(collected(pairs, parts)) == expected
    few_in_memory(monkeypatch)
    spilled = collected(pairs, parts)
    assert len(spilled._runs) > 1 or parts == 1
    assert pairs_of(spilled) == expected
    assert pairs_of(spilled) == expected, "a second reading begins anew"
    assert spilled.num_rows == len(pairs)
    assert spilled.counts[3] == len(NAMES) + len(DIRECTORIES)


def test_a_merge_holds_a_piece_of_each_run_and_no_more(
    pairs: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    few_in_memory(monkeypatch)
    rows = collected([pair for pair in pairs if not pair[1].endswith("/")], 23)
    assert max(table.num_rows for table in rows) <= 7 * len(rows._runs)


def test_no_rows() -> None:
    rows = OrderedRows()
    rows.settle()
    assert (pairs_of(rows), rows.num_rows) == ([], 0)


def test_a_temporary_file_that_changed_is_not_obeyed(
    pairs: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    few_in_memory(monkeypatch)
    rows = collected(pairs, 5)
    spilled = rows._spilled
    assert spilled is not None
    spilled.seek(rows._runs[1][3].start + 40)
    spilled.write(b"\x00\x01")
    with pytest.raises(StateUnwritableError, match="does not hold what was written"):
        pairs_of(rows)


def test_a_full_disk_is_said_before_anything_is_done(
    pairs: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    few_in_memory(monkeypatch)

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ordered, "TemporaryFile", full)
    with pytest.raises(StateUnwritableError, match=r"No space left.*nothing was done"):
        collected(pairs, 5)
