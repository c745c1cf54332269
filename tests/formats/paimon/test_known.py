"""A Paimon table is opened once as long as it is the same, and never taken for an older one."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.formats.paimon import open_format
from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.format import Format
from lakewarden.model.ports import Directory, Stat
from lakewarden.model.table import TableState
from lakewarden.storage.stores import Stores
from tests.formats.paimon.tables import Lake, LakeTable
from tests.support.policies import expiry_policy, partition_policy

NOW = datetime.now(UTC)


class Counted:
    """The stores, counting what is asked of them."""

    def __init__(self) -> None:
        self._stores = Stores()
        self.asked: Counter[str] = Counter()

    def get(self, uri: str) -> bytes:
        self.asked["opened"] += 1
        return self._stores.get(uri)

    def get_many(self, uris: Sequence[str]) -> list[bytes | Exception]:
        self.asked["opened"] += len(uris)
        return self._stores.get_many(uris)

    def entries(self, prefix: str) -> Directory:
        self.asked["listed"] += 1
        return self._stores.entries(prefix)

    def places(self, prefix: str) -> Directory:
        self.asked["listed"] += 1
        return self._stores.places(prefix)

    def head(self, uri: str) -> Stat | None:
        return self._stores.head(uri)

    def create(self, uri: str, data: bytes) -> bool:
        return self._stores.create(uri, data)

    def put(self, uri: str, data: bytes) -> None:
        self._stores.put(uri, data)

    def since(self) -> dict[str, int]:
        """What was asked since this was last called."""
        found, self.asked = dict(self.asked), Counter()
        return found


@pytest.fixture
def files() -> Counted:
    return Counted()


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    made = Lake(tmp_path / "wh").create("t", {"partition.expiration-time": "1 d"})
    made.write("2024-01-01")
    made.write("2024-01-02")
    return made


@pytest.fixture
def paimon(table: LakeTable, files: Counted) -> Format:
    return open_format("p", {"warehouse": str(table.path.parents[1])}, files, lambda *_: None)


def load(found: Format) -> TableState:
    (pointer,) = found.pointers()
    return found.load(pointer, NOW)


def test_a_plan_opens_the_files_of_a_table_once(paimon: Format, files: Counted) -> None:
    assert paimon.expirer is not None
    assert paimon.partition_expirer is not None
    state = load(paimon)
    # One schema, two snapshots, one hint; listed by the pointer, and again behind the reading.
    assert files.since() == {"opened": 4, "listed": 2 + 2 * 6}
    assert paimon.expirer.survey(state, expiry_policy(), NOW).refusal is None
    assert paimon.partition_expirer.latest(state, partition_policy()) is not None
    assert paimon.partition_expirer.survey(state, partition_policy(), [], NOW).refusal is None
    assert files.since() == {}, "a survey asks the stores for nothing"


def test_at_apply_each_look_is_one_fresh_listing(paimon: Format, files: Counted, table: LakeTable) -> None:
    assert paimon.expirer is not None
    detail = paimon.expirer.survey(load(paimon), expiry_policy(), NOW).detail
    (pointer,) = paimon.pointers()
    files.since()
    assert paimon.expirer.outdated(pointer, detail, resumed=False) is None
    assert files.since() == {"listed": 6}
    table.write("2024-01-03")
    paimon.expirer.outdated(pointer, detail, resumed=False)
    assert files.since()["opened"] == 5, "the table is another one: all of it is read again"


@pytest.mark.parametrize("change", ["commit", "tag", "replaced", "gone"])
def test_a_table_that_changed_is_read_again(paimon: Format, table: LakeTable, change: str) -> None:
    before = load(paimon)
    snapshots = table.path / "snapshot"
    if change == "commit":
        table.write("2024-01-03")
    elif change == "tag":
        (table.path / "tag").mkdir()
        shutil.copy(snapshots / "snapshot-1", table.path / "tag/tag-kept")
    elif change == "replaced":
        text = (snapshots / "snapshot-2").read_text()
        (snapshots / "snapshot-2").write_text(text.replace('"APPEND"', '"ANALYZE"'))
    else:
        (snapshots / "snapshot-1").unlink()
    after = load(paimon)
    assert after.metadata_location != before.metadata_location
    assert after.refusal is None
    if change != "replaced":
        assert (after.snapshot_ids, after.refs) != (before.snapshot_ids, before.refs)


def test_a_table_that_lost_its_snapshots_is_not_taken_for_the_empty_one_it_was(tmp_path: Path, files: Counted) -> None:
    """Both have the same listing but for the hint. Believed, the old reading would make every file an orphan."""
    table = Lake(tmp_path / "wh").create("t")
    paimon = open_format("p", {"warehouse": str(tmp_path / "wh")}, files, lambda *_: None)
    empty = load(paimon)
    assert (empty.refusal, empty.current_snapshot_id) == (None, None)
    table.write("2024-01-01")
    (table.path / "snapshot/snapshot-1").unlink()
    lost = load(paimon)
    assert lost.metadata_location == empty.metadata_location
    assert lost.refusal is not None
    assert lost.refusal.code == UnreadableMetadataError.code


def test_no_more_is_remembered_than_the_bound(tmp_path: Path, files: Counted) -> None:
    lake = Lake(tmp_path / "wh")
    tables = [lake.create(name) for name in ("a", "b", "c")]
    for table in tables:
        table.write("2024-01-01")
    known = KnownTables(files, most_files=4)  # two tables of one snapshot
    locations = [f"file://{table.path}/" for table in tables]
    found = [known.now(location) for location in locations]
    files.since()
    assert [known.now(location) is table for location, table in zip(locations[1:], found[1:], strict=True)] == [
        True
    ] * 2
    assert "opened" not in files.since()
    assert known.now(locations[0]) is not found[0]
    assert files.since()["opened"] > 0
