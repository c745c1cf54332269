"""Tables with all kinds of pasts, by pypaimon and by Java: what must be there is there, and every name is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewarden.formats.paimon.metadata.names import NAMES
from lakewarden.formats.paimon.metadata.read import read_table
from lakewarden.formats.paimon.metadata.state import table_state, table_uuid
from lakewarden.model.table import TableState
from lakewarden.storage.stores import Stores
from tests.formats.paimon import histories
from tests.formats.paimon.histories import Library
from tests.formats.paimon.register import some
from tests.formats.paimon.story import Story

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

STORES = Stores()
KEY = ("dt", "id")
DECOUPLED = {"changelog.num-retained.min": "10", "changelog.num-retained.max": "20"}


def state_of(location: Path) -> TableState:
    table = read_table(f"file://{location}/", STORES)
    return table_state("p.t", table, table_uuid(table))


def absent(state: TableState) -> list[str]:
    return [file.uri for file in state.files if STORES.head(file.uri) is None]


@pytest.mark.parametrize("name", histories.NAMES)
def test_what_a_table_needs_is_there_and_every_name_is_known(library: Library, name: str) -> None:
    history = library.original(name)
    state = state_of(history.location)
    assert state.refusal is None
    assert absent(state) == []
    for path in history.files():
        uri = f"file://{path}" if path.startswith("/") else f"file://{history.location}/{path}"
        root = max((root for root in state.roots if uri.startswith(root)), key=len)
        below = pa.array([uri.removeprefix(root)])
        known = [pc.match_substring_regex(below, pattern)[0].as_py() for pattern in (NAMES.written, NAMES.reused)]
        assert known.count(True) == 1, below


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_what_expiry_leaves_of_decoupled_changelogs(spark: SparkSession, tmp_path: Path, producer: str) -> None:
    options = {"bucket": "1", "changelog-producer": producer, **DECOUPLED}
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], primary_keys=KEY, options=options)
    for step in range(4):
        story.write_by_java(some("a", step * 10), compact=step % 2 == 1)
    story.analyze_by_java()
    story.write_by_java(some("a", 90))
    story.expire_by_java(1, DECOUPLED)
    state = state_of(story.location)
    assert absent(state) == []
    soft = [item.uri for item in state.manifest_lists if item.soft]
    assert (soft == []) == (producer == "none")
    assert all(STORES.head(uri) is None for uri in soft)


def test_what_expiry_leaves_of_tags_and_branches_with_a_changelog(spark: SparkSession, tmp_path: Path) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], primary_keys=KEY, options=options)
    for step in range(4):
        story.write_by_java(some("a", step * 10))
    story.tag("t2", 2)
    story.branch("b1", "t2")
    story.write_by_java(some("a", 90), branch="b1")
    story.expire_by_java(1)
    state = state_of(story.location)
    assert absent(state) == []
    assert [STORES.head(item.uri) for item in state.manifest_lists if item.soft] == [None]
    story.fast_forward_by_java("b1")
    assert absent(state_of(story.location)) == []
