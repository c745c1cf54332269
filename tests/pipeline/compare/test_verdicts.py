"""The verdict on every listed file, rule by rule, on tables of a few rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.formats.iceberg.metadata.names import NAMES
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.verdicts import STREAMING, Ownership, Rules, judge

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CUTOFF = NOW - timedelta(days=7)
OLD = NOW - timedelta(days=30)
ROOT = "s3://b/wh/t/"


def micros(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000)


def rules(**changes: Any) -> Rules:
    values: dict[str, Any] = {
        "owners": {0: (Ownership(ROOT, 0),)},
        "cutoffs": (micros(CUTOFF),),
        "selected": (True,),
        "confirm": (False,),
    }
    values |= changes
    values.setdefault("formats", (0,) * len(values["cutoffs"]))
    return Rules(names=(NAMES,), **values)


def row(name: str, **changes: Any) -> dict[str, Any]:
    base = {c.ROOT: 0, c.KEY: ROOT + name, c.SIZE: 7, c.MODIFIED: OLD, c.ETAG: "e", c.FLAG: None, c.MARK: None}
    return base | {c.TABLE: None, c.KIND: None} | changes


def judged(rows: list[dict[str, Any]], by: Rules | None = None) -> dict[str, dict[str, Any]]:
    table = judge(pa.Table.from_pylist(rows, schema=c.JOINED), by or rules())
    return {r["uri"]: r for r in table.to_pylist()}


def verdict(name: str, by: Rules | None = None, **changes: Any) -> str:
    found = judged([row(name, **changes)], by)
    return str(found[ROOT + name]["verdict"])


def test_what_nothing_speaks_for_is_an_orphan() -> None:
    found = judged([row("data/x.parquet")])[ROOT + "data/x.parquet"]
    assert (found["verdict"], found["kind"], found["size"], found["etag"]) == ("orphan", "data", 7, "e")


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("live", {c.MARK: c.MARK_LIVE}),
        ("pending", {c.MARK: c.MARK_PENDING}),
        ("protected", {c.FLAG: "special"}),
        ("unknown_age", {c.MODIFIED: None}),
        ("too_new", {c.MODIFIED: NOW}),
        ("unconfirmed", {"by": rules(confirm=(True,))}),
        ("orphan", {"by": rules(confirm=(True,)), c.MARK: c.MARK_SEEN}),
    ],
)
def test_each_verdict_has_its_sign(expected: str, changes: dict[str, Any]) -> None:
    assert verdict("data/x.parquet", **changes) == expected


def test_the_first_sign_in_the_order_of_verdicts_wins() -> None:
    """All signs at once; taking the winning one away each time lets the next one through."""
    beat = Heartbeat("w", "t", ROOT, OLD - timedelta(days=1), NOW, 60)
    by = rules(confirm=(True,), heartbeats=(beat,))
    signs: list[tuple[str, dict[str, Any]]] = [
        ("live", {c.MARK: c.MARK_LIVE | c.MARK_PENDING}),
        ("pending", {c.MARK: c.MARK_PENDING}),
        ("protected", {c.MARK: 0}),
        ("unknown_age", {c.FLAG: None}),
        ("too_new", {c.MODIFIED: NOW}),
        ("in_flight", {c.MODIFIED: OLD}),
        ("unconfirmed", {"by": rules(confirm=(True,))}),
        ("orphan", {"by": rules()}),
    ]
    state: dict[str, Any] = {"by": by, c.FLAG: "special", c.MODIFIED: None}
    for expected, change in signs:
        state |= change
        assert verdict("data/x.parquet", **state) == expected


@pytest.mark.parametrize(
    "name",
    [
        "_temporary/0/x.parquet", "data/.x.parquet.crc", "data/.staging/x.parquet", "_SUCCESS", "data/_x.parquet",
        "metadata/.tmp.avro", "data/_x=1.parquet", ".lakewarden/owner.json",
    ],
)  # fmt: skip
def test_hidden_names_are_protected(name: str) -> None:
    assert verdict(name) == "protected"


@pytest.mark.parametrize("name", ["data/_day=3/x.parquet", "data/part=_a/x.parquet", "data/_a=_b/_c=1/x.parquet"])
def test_partition_directories_that_begin_with_an_underscore_are_not_hidden(name: str) -> None:
    assert verdict(name) == "orphan"


def test_the_table_may_itself_lie_below_a_hidden_directory() -> None:
    root = "s3://b/_wh/.x/t/"
    by = rules(owners={0: (Ownership(root, 0),)})
    assert judged([row("", **{c.KEY: root + "data/x.parquet"})], by)[root + "data/x.parquet"]["verdict"] == "orphan"


@pytest.mark.parametrize(
    "name",
    [
        "metadata/version-hint.text",
        "metadata/v3.metadata.json",
        "metadata/v12.gz.metadata.json",
        "metadata/v1.metadata.json.gz",
    ],
)
def test_names_that_a_later_commit_may_use_again_are_protected(name: str) -> None:
    assert verdict(name) == "protected"


@pytest.mark.parametrize(
    "name", ["notes.txt", "data/x.csv", "README", "data/x.parquet.bak", "metadata/x.json", "data/parquet"]
)
def test_what_iceberg_never_writes_is_protected(name: str) -> None:
    assert verdict(name) == "protected"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("data/a.parquet", "data"),
        ("x.orc", "data"),
        ("data/a=1/x.avro", "data"),
        ("data/x-deletes.parquet", "delete"),
        ("data/00000-1.puffin", "delete"),
        ("metadata/x-m0.avro", "manifest"),
        ("metadata/snap-1-1-u.avro", "manifest_list"),
        ("metadata/00001-u.metadata.json", "metadata"),
        ("metadata/00001-u.gz.metadata.json", "metadata"),
        ("metadata/x.stats", "statistics"),
        ("metadata/x.puffin", "statistics"),
        ("metadata/partition-stats-1.parquet", "statistics"),
    ],
)
def test_every_file_class_of_the_format_is_a_candidate_and_has_its_kind(name: str, kind: str) -> None:
    found = judged([row(name)])[ROOT + name]
    assert (found["verdict"], found["kind"]) == ("orphan", kind)


def test_uncommitted_files_of_a_streaming_writer_are_protected_for_its_own_table_only() -> None:
    by = rules(
        owners={0: (Ownership(ROOT + "in/", 1), Ownership(ROOT, 0))},
        cutoffs=(micros(CUTOFF),) * 2,
        selected=(True, True),
        confirm=(False, False),
        writer_prefixes={1: ("job9",)},
    )
    found = judged([row("in/metadata/job9-0-1.avro"), row("metadata/job9-0-1.avro"), row("in/data/x.parquet")], by)
    assert found[ROOT + "in/metadata/job9-0-1.avro"]["reason"] == STREAMING
    assert found[ROOT + "metadata/job9-0-1.avro"]["verdict"] == "orphan"
    assert found[ROOT + "in/data/x.parquet"]["verdict"] == "orphan"


def test_a_heartbeat_covers_what_its_writer_began_under_its_prefix() -> None:
    beat = Heartbeat("flink-1", "t", ROOT + "data/", OLD, NOW, 60)
    by = rules(heartbeats=(beat,))
    # The store's clock may be behind the one that the writer beat by.
    last = OLD - MARGINS.clock_skew
    earlier = last - timedelta(microseconds=1)
    first, before = row("data/x.parquet", **{c.MODIFIED: last}), row("data/y.parquet", **{c.MODIFIED: earlier})
    found = judged([first, before, row("data2/z.parquet")], by)
    assert [found[ROOT + n]["verdict"] for n in ("data/x.parquet", "data/y.parquet", "data2/z.parquet")] == [
        "in_flight",
        "orphan",
        "orphan",
    ]
    assert "flink-1" in found[ROOT + "data/x.parquet"]["reason"]


def test_a_file_must_be_strictly_older_than_the_cutoff_of_its_own_table() -> None:
    by = rules(
        owners={0: (Ownership(ROOT + "in/", 1), Ownership(ROOT, 0))},
        cutoffs=(micros(CUTOFF), micros(OLD)),
        selected=(True, True),
        confirm=(False, False),
    )
    just = timedelta(microseconds=1)
    cases = {
        "a.parquet": (CUTOFF, "too_new"),
        "b.parquet": (CUTOFF - just, "orphan"),
        "in/a.parquet": (CUTOFF - just, "too_new"),
        "in/b.parquet": (OLD, "too_new"),
        "in/c.parquet": (OLD - just, "orphan"),
    }
    found = judged([row(name, **{c.MODIFIED: at}) for name, (at, _) in cases.items()], by)
    assert {name: found[ROOT + name]["verdict"] for name in cases} == {n: v for n, (_, v) in cases.items()}


def test_a_file_belongs_to_the_deepest_table_above_it_and_unselected_tables_have_no_rows() -> None:
    """Rows of several roots in one batch, in mixed order, with a table nested in another one's directory."""
    other = "s3://b/wh/t_v2/"
    by = rules(
        owners={0: (Ownership(ROOT + "in/", 1), Ownership(ROOT, 0)), 1: (Ownership(other, 2),)},
        cutoffs=(micros(CUTOFF),) * 3,
        selected=(True, False, True),
        confirm=(False,) * 3,
    )
    rows = [
        row("", **{c.ROOT: 1, c.KEY: other + "data/x.parquet"}),
        row("data/x.parquet"),
        row("in/data/x.parquet"),
        row("", **{c.ROOT: 1, c.KEY: other + "data/y.parquet"}),
        row("inside.parquet"),
    ]
    found = judged(rows, by)
    assert {uri: r[c.TABLE] for uri, r in found.items()} == {
        other + "data/x.parquet": 2,
        other + "data/y.parquet": 2,
        ROOT + "data/x.parquet": 0,
        ROOT + "inside.parquet": 0,
    }
    assert found[other + "data/x.parquet"]["relative"] == "data/x.parquet"


def test_a_root_that_is_itself_something_odd_belongs_to_its_outermost_table() -> None:
    by = rules(
        owners={1: (Ownership(ROOT + "in/", 2), Ownership(ROOT, 1))},
        cutoffs=(micros(CUTOFF),) * 3,
        selected=(True,) * 3,
        confirm=(False,) * 3,
    )
    found = judged([row("", **{c.ROOT: 1, c.KEY: ROOT[:-1], c.FLAG: "symlink"})], by)
    assert (found[ROOT[:-1]][c.TABLE], found[ROOT[:-1]]["verdict"]) == (1, "protected")
