"""Damaged snapshots, schemas, tags, branches, consumers and hints of a real Paimon table: refused, or no less is needed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.formats.paimon.format import open_format
from lakewarden.formats.paimon.metadata import read
from lakewarden.model.errors import Refusal
from lakewarden.model.expiry import Expiration
from lakewarden.model.partitions import PartitionExpiration, PartitionFiles
from lakewarden.model.table import Holder, TableState
from lakewarden.storage.stores import Stores
from tests.foreign.bounds import within
from tests.formats.fuzz.effort import few, many
from tests.formats.fuzz.mutations import DROP, REPLACE, SWAP, Damage, damaged_bytes, damaged_documents
from tests.formats.fuzz.real import EXPIRY, NOW, PARTITIONS, reach, real_paimon
from tests.formats.fuzz.test_fuzz_iceberg import can_be_planned
from tests.formats.paimon.tables import LakeTable

HINTS = ("snapshot/EARLIEST", "snapshot/LATEST")
# Fields without which a snapshot is a valid one that needs less, or is proven by less.
OPTIONAL = ("changelogManifestList", "indexManifest", "statistics", "baseManifestListSize", "deltaManifestListSize")
COUNTED = [
    PartitionFiles(bytes(40), 1, 5, 5),
    PartitionFiles(b"", 2, None, 7),
    PartitionFiles(b"\0\0\0\1" + b"\xff" * 16, 1, 2**62, 1),
]


class Table:
    def __init__(self, real: LakeTable) -> None:
        self.real = real
        self.format: Any = open_format("p", {"warehouse": f"file://{real.lake.path}"}, Stores(), lambda *_: None)
        self.names = sorted(name for name in real.files() if not name.startswith(("manifest/", "dt=", "index/")))
        assert {name.split("/")[0] for name in self.names} == {"snapshot", "schema", "tag", "branch", "consumer"}
        self.bytes = {name: (real.path / name).read_bytes() for name in self.names}
        self.whole = self.load()
        assert self.whole.refusal is None
        self.needs = set(reach(self.whole))
        assert any(kind == "manifest" for kind, _ in self.needs), "it has an index manifest"

    def load(self) -> TableState:
        """The table now, and its neighbour, which nothing harms."""
        states = {pointer.identifier: self.format.load(pointer, NOW) for pointer in self.format.pointers()}
        assert states["p.db.beside"].refusal is None
        found: TableState = states["p.db.t"]
        return found

    def with_file(self, name: str, data: bytes) -> TableState:
        (self.real.path / name).write_bytes(data)
        try:
            with within(10, 150):
                state = self.load()
            if state.refusal is None:
                check_jobs(self.format, state)
            return state
        finally:
            (self.real.path / name).write_bytes(self.bytes[name])


def check_jobs(table: Any, state: TableState) -> None:
    assert isinstance(table.expirer.survey(state, EXPIRY, NOW), Expiration)
    held = table.partition_expirer.latest(state, PARTITIONS)
    assert held is None or isinstance(held, Holder | Refusal)
    assert isinstance(table.partition_expirer.survey(state, PARTITIONS, COUNTED, NOW), PartitionExpiration)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "FIRST_PAUSE", 0.0)
        patch.setattr(read, "TRIES", 2)
        yield Table(real_paimon(tmp_path_factory.mktemp("fuzz") / "paimon"))


def unseen(damage: Damage) -> bool:
    """Damage after which the file is as valid as before and needs less: nothing in it tells."""
    gone = damage.how == DROP or (damage.how == REPLACE and damage.value in (None, {}))
    return damage.how == SWAP or (gone and damage.path[0] in (*OPTIONAL, "options"))


def renamed(damage: Damage) -> bool:
    """A list's name, or a directory among the options, that is another text: as good a name as the one before."""
    named = damage.path[0] in ("baseManifestList", "deltaManifestList", *OPTIONAL, "options")
    return named and damage.how == REPLACE and isinstance(damage.value, str)


def check_file(table: Table, name: str, data: bytes, damage: Damage | None) -> None:
    state = table.with_file(name, data)
    can_be_planned(state)
    if state.refusal is None and not (damage is not None and (unseen(damage) or renamed(damage))):
        lost = table.needs - set(reach(state))
        assert not lost, (name, damage, lost)


def damaged_file(table: Table, data: st.DataObject) -> None:
    """One value of one file."""
    name = data.draw(st.sampled_from([name for name in table.names if not name.endswith(("EARLIEST", "LATEST"))]))
    found, damage = data.draw(damaged_documents(json.loads(table.bytes[name])))
    check_file(table, name, found, damage)


def damaged_bytes_of_file(table: Table, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(table.names))
    found = data.draw(damaged_bytes(table.bytes[name], list(table.bytes.values())))
    state = table.with_file(name, found)
    can_be_planned(state)
    if name.endswith(("EARLIEST", "LATEST")):
        assert state.refusal is not None or set(reach(state)) == table.needs, "a hint takes nothing away"
    elif state.refusal is None and found not in table.bytes.values():
        assert len(set(reach(state))) >= len(table.needs) - len(OPTIONAL), name


@few(70)
@given(data=st.data())
def test_a_damaged_value_refuses_the_table_or_changes_nothing(table: Table, data: st.DataObject) -> None:
    damaged_file(table, data)


@few(50)
@given(data=st.data())
def test_damaged_bytes_refuse_the_table_or_change_nothing(table: Table, data: st.DataObject) -> None:
    damaged_bytes_of_file(table, data)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@many(60)
@given(data=st.data())
def test_many_damaged_files(table: Table, data: st.DataObject) -> None:
    damaged_file(table, data)
    damaged_bytes_of_file(table, data)
