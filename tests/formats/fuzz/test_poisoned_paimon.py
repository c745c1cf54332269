"""One Paimon table's files that nobody can read refuse that table, in little time and memory, and no other."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from lakewarden.formats.paimon.format import open_format
from lakewarden.formats.paimon.metadata import read
from lakewarden.storage.stores import Stores
from tests.foreign.bounds import within
from tests.formats.fuzz.real import NOW, real_paimon
from tests.formats.fuzz.test_fuzz_iceberg import can_be_planned
from tests.formats.paimon.tables import LakeTable

FILES = ("snapshot/snapshot-2", "schema/schema-0", "tag/tag-kept", "branch/branch-side/snapshot/snapshot-3")
BYTES: dict[str, tuple[bytes, str]] = {
    "thirty digits": (b'{"id": 123456789012345678901234567890}', "LW-TABLE-010"),
    "infinity": (b'{"id": 1, "timeMillis": Infinity}', "LW-TABLE-010"),
    "half a character": (b'{"id": 1, "commitUser": "\\ud800"}', "LW-TABLE-010"),
    "a NUL": (b'{"id": 1, "commitUser": "\\u0000"}', "LW-TABLE-010"),
    "a name twice": (b'{"id": 1, "id": 2}', "LW-TABLE-010"),
    "deep": (b"[" * 100_000, "LW-TABLE-010"),
    "a bomb": (gzip.compress(b" " * (200 << 20)), "LW-TABLE-010"),
    "megabytes": (b'{"id": "' + b"x" * (17 << 20) + b'"}', "LW-TABLE-010"),
    "nothing": (b"", "LW-TABLE-001"),
    "zeros": (b"\0" * 1000, "LW-TABLE-001"),
}
FIELDS: dict[str, Any] = {
    "timeMillis": 2**62, "baseManifestList": "..", "deltaManifestList": ".", "indexManifest": "a/../b", "id": 1.0,
    "schemaId": True, "baseManifestListSize": "9", "commitIdentifier": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "FIRST_PAUSE", 0.0)
        yield real_paimon(tmp_path_factory.mktemp("poisoned") / "paimon")


def refusal(lake: LakeTable, name: str, data: bytes) -> str | None:
    """The code for which the table is refused with those bytes in one of its files; its neighbour never is."""
    path = lake.path / name
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        found = open_format("p", {"warehouse": f"file://{lake.lake.path}"}, Stores(), lambda *_: None)
        with within(10, 150):
            states = {pointer.identifier: found.load(pointer, NOW) for pointer in found.pointers()}
    finally:
        path.write_bytes(before)
    assert states["p.db.beside"].refusal is None
    can_be_planned(states["p.db.t"])
    why = states["p.db.t"].refusal
    return why.code if why else None


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("case", BYTES)
def test_poisoned_bytes_refuse_their_own_table(lake: LakeTable, name: str, case: str) -> None:
    data, expected = BYTES[case]
    assert refusal(lake, name, data) == expected


@pytest.mark.parametrize("field", FIELDS)
def test_a_poisoned_field_refuses_its_own_table(lake: LakeTable, field: str) -> None:
    poisoned = lake.json("snapshot/snapshot-2") | {field: FIELDS[field]}
    assert refusal(lake, "snapshot/snapshot-2", json.dumps(poisoned).encode()) == "LW-TABLE-001"


@pytest.mark.parametrize("text", [b"9" * 5000, b"-1", b"1e9", b"\xff", b"", "٣".encode(), b"9" * 18, b"0" * 100])
@pytest.mark.parametrize("name", ["snapshot/LATEST", "snapshot/EARLIEST"])
def test_a_poisoned_hint_is_passed_over_or_refuses_its_own_table(lake: LakeTable, name: str, text: bytes) -> None:
    """A hint of a snapshot that is not there may tell of one that was lost."""
    assert refusal(lake, name, text) in (None, "LW-TABLE-001", "LW-TABLE-012")
