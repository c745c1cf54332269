"""Damaged metadata.json of a real Iceberg table: its table is refused, or needs no less than before. Nothing else happens."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.formats.iceberg.format import open_format
from lakewarden.formats.iceberg.metadata.strangers import Recogniser
from lakewarden.model.errors import LakewardenError, Refusal
from lakewarden.model.expiry import Expiration
from lakewarden.model.manifests import ManifestPolicy, ManifestSurvey
from lakewarden.model.partitions import PartitionFiles
from lakewarden.model.table import Holder, Pointer, TableState
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.storage.stores import Stores
from tests.foreign.bounds import within
from tests.formats.fuzz.effort import few, many
from tests.formats.fuzz.mutations import DROP, REPLACE, SWAP, Damage, damaged_bytes, damaged_documents
from tests.formats.fuzz.real import EXPIRY, NOW, PARTITIONS, RealIceberg, reach, real_iceberg, soft_reach

EPOCH = datetime.fromtimestamp(0, UTC)
COUNTED = [PartitionFiles(b'[0, ["a"]]', 1, 5, 5), PartitionFiles(b"[0, [null]]", 2, None, 7)]


class Table:
    """The real table, and what its format says of it when some of its bytes are others."""

    def __init__(self, real: RealIceberg) -> None:
        self.real = real
        self.format: Any = open_format("lake", real.properties, Stores(), lambda place, properties: None)
        self.pointer = Pointer(real.identifier, f"file://{real.metadata}")
        self.data, self.earlier = real.metadata.read_bytes(), real.earlier.read_bytes()
        self.whole = self.load()
        assert self.whole.refusal is None
        self.needs, self.soft = set(reach(self.whole)), soft_reach(self.whole)
        assert self.soft

    def load(self) -> TableState:
        found: TableState = self.format.load(self.pointer, EPOCH)
        return found

    def with_metadata(self, data: bytes) -> TableState:
        self.real.metadata.write_bytes(data)
        try:
            with within(5, 150):
                return self.load()
        finally:
            self.real.metadata.write_bytes(self.data)

    def with_earlier(self, data: bytes) -> TableState:
        self.real.earlier.write_bytes(data)
        try:
            with within(5, 150):
                return self.load()
        finally:
            self.real.earlier.write_bytes(self.earlier)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(real_iceberg(tmp_path_factory.mktemp("fuzz") / "iceberg"))


def can_be_planned(state: TableState) -> None:
    """What a plan does first with every table, refused or not: none of it may fail for the fleet."""
    ToRead.of([(0, state)], {})
    for _, text in reach(state):
        text.encode()
        assert "\0" not in text
    if state.refusal is not None:
        json.dumps([state.refusal.code, state.refusal.message]).encode()
        state.refusal.message.encode()


def unseen(damage: Damage) -> bool:
    """Damage after which the document is as valid as before and needs less: nothing in it tells.

    A value that is another valid one (SWAP); all properties, statistics or the log of metadata gone, or one entry of them.
    """
    optional = damage.path[0] in ("properties", "statistics", "partition-statistics", "metadata-log")
    gone = damage.how == DROP or (damage.how == REPLACE and damage.value in (None, [], {}))
    return damage.how == SWAP or (optional and gone and len(damage.path) <= 2)


def check_metadata(table: Table, data: bytes, damage: Damage | None) -> None:
    state = table.with_metadata(data)
    can_be_planned(state)
    if state.refusal is None:
        lost = table.needs - set(reach(state))
        assert not lost or (damage is not None and unseen(damage)), (damage, lost)
        check_jobs(table, state, data)


def check_jobs(table: Table, state: TableState, data: bytes) -> None:
    """Jobs that look into the document themselves answer with a refusal, whatever it says."""
    table.real.metadata.write_bytes(data)
    try:
        assert isinstance(table.format.expirer.survey(state, EXPIRY, NOW), Expiration)
        found = table.format.manifest_rewriter.survey(state, ManifestPolicy(True, True, 2, 0.1))
        assert isinstance(found, ManifestSurvey)
        held = table.format.partition_expirer.latest(state, PARTITIONS)
        assert held is None or isinstance(held, Holder | Refusal)
        if isinstance(held, Holder):
            table.format.partition_expirer.commit_times(state)
            table.format.partition_expirer.survey(state, PARTITIONS, COUNTED, NOW)
    finally:
        table.real.metadata.write_bytes(table.data)


def check_earlier(table: Table, data: bytes, damage: Damage | None) -> None:
    """The metadata file before: what it alone reached is still kept, or the table is refused."""
    state = table.with_earlier(data)
    can_be_planned(state)
    assert state.refusal is not None or set(reach(state)) >= table.needs
    if state.refusal is None and damage is not None and not unseen(damage):
        assert soft_reach(state) >= table.soft, damage


def check_stranger(table: Table, data: bytes) -> None:
    """The same bytes as a file that no table names."""
    stranger = table.real.metadata.with_name("stranger.metadata.json")
    stranger.write_bytes(data)
    for since in (EPOCH, NOW):
        recogniser = Recogniser.of([table.whole], since, ())
        for whole in (False, True):
            with within(5, 150):
                found = recogniser(f"file://{stranger}", table.real.identifier, Stores(), whole)
            json.dumps(found).encode()


@few(120)
@given(data=st.data())
def test_a_damaged_value_refuses_the_table_or_changes_nothing(table: Table, data: st.DataObject) -> None:
    found, damage = data.draw(damaged_documents(table.real.document))
    check_metadata(table, found, damage)


@few(60)
@given(data=st.data())
def test_damaged_bytes_refuse_the_table_or_change_nothing(table: Table, data: st.DataObject) -> None:
    """A bit may turn a name into another one, or a number: no reader can tell. All others are noticed."""
    check_damaged_bytes(table, data.draw(damaged_bytes(table.data, [table.earlier])))


def check_damaged_bytes(table: Table, found: bytes) -> None:
    same = len(found) == len(table.data)
    if same or found == table.earlier:
        can_be_planned(table.with_metadata(found))
    else:
        state = table.with_metadata(found)
        can_be_planned(state)
        # Bytes that are lost or doubled within one text leave a document of the same shape; within the name of an optional
        # field they leave one without that field. Snapshots are never fewer.
        assert state.refusal is not None or len(state.manifest_lists) >= len(table.whole.manifest_lists)


@few(60)
@given(data=st.data())
def test_a_damaged_earlier_state_refuses_the_table_or_still_protects(table: Table, data: st.DataObject) -> None:
    found, damage = data.draw(damaged_documents(json.loads(table.earlier)))
    check_earlier(table, found, damage)


@few(60)
@given(data=st.data())
def test_a_damaged_file_that_nobody_names_is_recognised_or_left_alone(table: Table, data: st.DataObject) -> None:
    found = data.draw(st.one_of(damaged_bytes(table.data, [table.earlier]), damaged_documents(table.real.document)))
    check_stranger(table, found if isinstance(found, bytes) else found[0])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@many(60)
@given(data=st.data())
def test_many_damaged_documents(table: Table, data: st.DataObject) -> None:
    found, damage = data.draw(damaged_documents(table.real.document))
    check_metadata(table, found, damage)
    check_stranger(table, found)
    check_damaged_bytes(table, data.draw(damaged_bytes(table.data, [table.earlier])))
    earlier, how = data.draw(damaged_documents(json.loads(table.earlier)))
    check_earlier(table, earlier, how)


def test_the_relocator_refuses_by_name(table: Table) -> None:
    """Archived documents are read again years later."""
    for data in (b"", b"{}", b'{"snapshots": 5}', b'{"snapshots": [5]}', table.data[:500], b'{"properties": 5}'):
        for ask in (lambda data=data: table.format.relocator.described(data),
                    lambda data=data: table.format.relocator.aged(data, "x", [1])):  # fmt: skip
            try:
                ask()
            except LakewardenError:
                continue
