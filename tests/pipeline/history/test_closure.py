"""What was made from a snapshot: by tables and ids, over cycles and long chains, the same as by a plain walk."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.pipeline.history.closure import EDGE, NODE, NOTE, TABLE, Start, downstream, graph_of
from lakewarden.pipeline.history.edges import EDGES, READ, edges_of, hash_of
from lakewarden.pipeline.history.rows import HISTORY

Place = tuple[str, int]
Snapshot = tuple[str, int, Sequence[Place]]
Lake = dict[Place, list[Place]]
SCHEMA = pa.schema([HISTORY.field(name) for name in READ])


def table_of(snapshots: Sequence[Snapshot]) -> pa.Table:
    rows = [
        {
            "uuid": f"uuid-{table}",
            "identifier": table,
            "snapshot_id": number,
            "committed_ms": place,
            "digest": f"{table}/{number}",
            "inputs": [{"table": name, "snapshot_id": one} for name, one in inputs],
        }
        for place, (table, number, inputs) in enumerate(snapshots)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def reached(snapshots: Sequence[Snapshot], number: int, table: str | None = None) -> dict[tuple[str, int], int]:
    """Every snapshot that is reached, and how deep it is; the start has 0."""
    start = Start(number, None if table is None else hash_of(table))
    answer = downstream(edges_of(table_of(snapshots), 7), start, 10**6).to_pylist()
    return {snapshots[row["b"]][:2]: row["c"] for row in answer if row["kind"] == NODE}


def test_inputs_are_followed_across_tables() -> None:
    lake = [("raw", 1, []), ("clean", 2, [("", 1)]), ("mart", 3, [("", 2)]), ("other", 4, [])]
    assert reached(lake, 1) == {("raw", 1): 0, ("clean", 2): 1, ("mart", 3): 2}
    assert reached(lake, 4) == {("other", 4): 0}


def test_an_id_that_two_tables_have_is_the_named_one_or_the_own_one() -> None:
    lake = [("a", 1, []), ("b", 1, []), ("b", 2, [("", 1)]), ("c", 5, [("a", 1)]), ("d", 6, [("", 1)])]
    assert reached(lake, 1, "a") == {("a", 1): 0, ("c", 5): 1, ("d", 6): 1}  # of d nobody knows: both
    assert reached(lake, 1, "uuid-b") == {("b", 1): 0, ("b", 2): 1, ("d", 6): 1}


def test_an_input_that_is_gone_leads_on_from_either_name() -> None:
    """The table was called raw when snapshot 9 was an input, and is called new by now; 9 expired before it was archived."""
    rows = [("raw", 1, []), ("new", 2, []), ("mart", 3, [("raw", 9)]), ("mart", 4, [("raw", 1)])]
    table = table_of(rows)
    uuids = pa.array([one.replace("uuid-raw", "uuid-new") for one in table["uuid"].to_pylist()])
    edges = edges_of(table.set_column(table.schema.get_field_index("uuid"), "uuid", uuids), 7)
    for name in ("raw", "new", "uuid-new"):
        for number, place in ((9, 2), (1, 3)):
            answer = downstream(edges, Start(number, hash_of(name)), 10).to_pylist()
            assert [row["b"] for row in answer if row["kind"] == NODE and row["c"] == 1] == [place]


def test_a_snapshot_that_nobody_has_any_more_is_still_an_input() -> None:
    lake = [("clean", 2, [("", 99)]), ("mart", 3, [("clean", 2)]), ("else", 4, [("raw", 99)])]
    assert reached(lake, 99) == {("clean", 2): 1, ("mart", 3): 2, ("else", 4): 1}
    assert reached(lake, 99, "raw") == {("clean", 2): 1, ("mart", 3): 2, ("else", 4): 1}
    assert reached(lake, 99, "other") == {("clean", 2): 1, ("mart", 3): 2}


def test_cycles_end() -> None:
    lake = [("a", 1, [("c", 3)]), ("b", 2, [("a", 1)]), ("c", 3, [("b", 2)]), ("d", 4, [("d", 4)])]
    assert reached(lake, 1) == {("a", 1): 0, ("b", 2): 1, ("c", 3): 2}
    assert reached(lake, 4) == {("d", 4): 0}


def test_the_answer_is_cut_and_tables_are_counted_whole() -> None:
    lake = [("raw", 0, []), *(("copy", number, [("raw", 0)]) for number in range(1, 200))]
    answer = downstream(edges_of(table_of(lake), 0), Start(0), 10).to_pylist()
    assert sum(row["kind"] == NODE for row in answer) == 11
    assert [row["a"] for row in answer if row["kind"] == TABLE] == [199]


def test_a_note_is_the_whole_answer() -> None:
    edges = pa.concat_tables(
        [edges_of(table_of([("a", 1, [])]), 0), pa.Table.from_pylist([{"note": "gone"}], schema=EDGES)]
    )
    assert downstream(edges, Start(1), 10).to_pylist()[0] | {"a": None} == {
        "kind": NOTE, "a": None, "b": None, "c": None, "d": None, "text": "gone"
    }  # fmt: skip


def test_a_chain_of_a_hundred_thousand() -> None:
    chain = [("t", 0, []), *(("t", number, [("", number - 1)]) for number in range(1, 100_000))]
    edges = edges_of(table_of(chain), 0)
    began = time.perf_counter()
    answer = downstream(edges, Start(0), 5).to_pylist()
    assert time.perf_counter() - began < 10
    assert [row["a"] for row in answer if row["kind"] == TABLE] == [99_999]


def test_an_id_that_every_table_has_costs_no_edge_for_each_pair() -> None:
    """A thousand tables of Paimon's count from 1, and a writer names its inputs by number alone: no ten million edges."""
    tables = [(f"t{table}", number, []) for table in range(1000) for number in (1, 2)]
    edges = edges_of(table_of([*tables, *(("mart", 10**9 + n, [("", 2)]) for n in range(10_000))]), 0)
    tracemalloc.start()
    answer = downstream(edges, Start(2, hash_of("t5")), 10).to_pylist()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [row["a"] for row in answer if row["kind"] == TABLE] == [10_000]
    assert [row["c"] for row in answer if row["kind"] == EDGE] == [1] * 10
    assert most < 64 << 20


INPUTS = st.lists(st.tuples(st.sampled_from(["", "a", "b", "c", "nowhere"]), st.integers(0, 6)), max_size=3)
LAKES = st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), INPUTS, min_size=1, max_size=14)


def sources_of(lake: Lake, node: Place, wanted: Place) -> list[Place]:
    """What an input can be; nothing if nobody has it."""
    name, one = wanted
    have = [other for other in lake if other[1] == one]
    if name:
        found = [other for other in have if other[0] == name]
    else:
        found = [other for other in have if other[0] == node[0]] or have
    return [other for other in found if other != node]


@settings(max_examples=200, deadline=None)
@given(LAKES, st.integers(0, 6))
def test_each_line_between_two_that_are_shown_is_told_and_whether_it_is_a_guess(lake: Lake, number: int) -> None:
    snapshots = [(name, one, inputs) for (name, one), inputs in lake.items()]
    answer = downstream(edges_of(table_of(snapshots), 7), Start(number), 10**6).to_pylist()
    shown = [snapshots[row["b"]][:2] for row in answer if row["kind"] == NODE]
    told = {(shown[row["a"]], shown[row["b"]]): bool(row["c"]) for row in answer if row["kind"] == EDGE}
    expected: dict[tuple[Place, Place], bool] = {}
    for node in shown:
        for one_input in lake[node]:
            found = sources_of(lake, node, one_input)
            for source in (one for one in found if one in shown):
                # Certain if any way of naming it is.
                expected[source, node] = expected.get((source, node), True) and len(found) > 1
    assert told == expected


@settings(max_examples=200, deadline=None)
@given(LAKES)
def test_lines_between_tables_are_those_between_their_snapshots(lake: Lake) -> None:
    snapshots = [(name, one, inputs) for (name, one), inputs in lake.items()]
    expected: Counter[tuple[str, str]] = Counter()
    for node, inputs in lake.items():
        for one_input in inputs:
            expected.update((source[0], node[0]) for source in sources_of(lake, node, one_input))
    graph = graph_of(edges_of(table_of(snapshots), 7))
    tables = [snapshots[place][0] for place in graph.place]
    told: Counter[tuple[str, str]] = Counter()
    for source, target in zip(graph.source, graph.target, strict=True):
        told[tables[source], tables[target]] += 1
    letters = np.array([ord(table) for table in tables], np.int64)
    for source, target, many in zip(*graph.shared.between(letters), strict=True):
        told[chr(source), chr(target)] += int(many)
    assert told == expected


@settings(max_examples=200, deadline=None)
@given(LAKES, st.integers(0, 6), st.sampled_from([None, "a", "b"]))
def test_the_same_as_a_plain_walk(lake: Lake, number: int, table: str | None) -> None:
    snapshots = [(name, one, inputs) for (name, one), inputs in lake.items()]
    sources = partial(sources_of, lake)
    expected = {node: 0 for node in lake if node[1] == number and table in (None, node[0])}
    frontier = set(expected)
    level = 0
    while frontier or level == 0:
        level += 1
        fresh = set()
        for node, inputs in lake.items():
            for one in inputs:
                found = sources(node, one)
                named = not found and level == 1 and one[1] == number and (table is None or one[0] in ("", table))
                if node not in expected and (named or frontier.intersection(found or ())):
                    fresh.add(node)
        expected |= dict.fromkeys(fresh, level)
        frontier = fresh
    assert reached(snapshots, number, table) == expected
