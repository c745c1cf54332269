"""A cold copy that has other bytes by now, of the same size: it is not restored as if nothing had happened."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from lakewarden.jobs.tier_handoff.drill import drill_cold
from lakewarden.model.drill import DrillStatus
from lakewarden.model.errors import LakewardenError, RestoreError
from lakewarden.model.run import RunStatus
from lakewarden.storage.copying import holds
from tests.jobs.snapshot_expiry.expiry_site import Rows, Site, rows_at
from tests.jobs.tier_handoff.aged import age_out, cold_site, cold_table, hand_over, ids_of, made, shown
from tests.support.lakes import local_path

pytestmark = pytest.mark.usefixtures("spark")


@dataclass(frozen=True)
class Handed:
    site: Site
    number: int
    rows: Rows
    cold: StaticTable


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handed]:
    with cold_site(tmp_path_factory.mktemp("rotten")) as site:
        table = made(site.catalog(), delete=True)
        ids = ids_of(table)
        rows = shown(table, ids)
        age_out(site, table, ids[:4])
        seen, _ = hand_over(site)
        yield Handed(site, ids[3], rows[ids[3]], cold_table(seen))


def addresses(handed: Handed) -> dict[str, str]:
    """One cold file of each kind that the snapshot needs."""
    snapshot = handed.cold.snapshot_by_id(handed.number)
    assert snapshot is not None
    manifest = snapshot.manifests(handed.cold.io)[0]
    data = next(iter(handed.cold.scan(snapshot_id=handed.number).plan_files())).file.file_path
    return {"data": data, "manifest": manifest.manifest_path, "list": snapshot.manifest_list}


def turned(path: Path, kind: str) -> bytes:
    """Bytes of the same length that can still be read: another codec's name, or a footer that says something else."""
    raw = path.read_bytes()
    if kind == "data":
        return raw[:10] + bytes([raw[10] ^ 0xFF]) + raw[11:]
    return raw.replace(b"format-version", b"format_version")


@pytest.mark.parametrize("kind", ["data", "manifest", "list"])
def test_other_bytes_of_the_same_size_are_not_restored(handed: Handed, kind: str) -> None:
    address = addresses(handed)[kind]
    path = local_path(address)
    raw = path.read_bytes()
    rotten = turned(path, kind)
    assert rotten != raw
    assert len(rotten) == len(raw)
    path.write_bytes(rotten)
    try:
        with pytest.raises(RestoreError, match="other bytes than were handed over") as stopped:
            handed.site.warden.restore_cold(str(handed.number), f"lake.sales.rotten_{kind}")
    finally:
        path.write_bytes(raw)
    assert path.name in stopped.value.message
    assert not handed.site.catalog().table_exists(f"sales.rotten_{kind}")
    assert handed.site.warden.runs()[0]["status"] == "failed"


def test_what_is_whole_is(handed: Handed) -> None:
    assert handed.site.warden.restore_cold(str(handed.number), "lake.sales.back").status is RunStatus.DONE
    assert rows_at(handed.site.catalog().load_table("sales.back")) == handed.rows


def test_a_copy_that_the_ledger_does_not_know_is_not_vouched_for(
    handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = handed.site.warden._deployment.ledger.cold
    [snapshot] = cold.find(handed.number)
    known = [file for page in cold.of(snapshot.uuid) for file in page if not file.cold_uri.endswith(".parquet")]
    monkeypatch.setattr(cold, "of", lambda uuid: iter([known]))
    with pytest.raises(RestoreError, match="is not a recorded cold copy"):
        handed.site.warden.restore_cold(str(handed.number), "lake.sales.unknown")


@pytest.mark.parametrize("name", ["", "md5:", "sha1:", "sha256:"])
def test_a_digest_of_any_kind_is_compared(handed: Handed, tmp_path: Path, name: str) -> None:
    """Stores spell the checksums that they keep in base64, tags and our own digests are in hex."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    found = hashlib.new(name.rstrip(":") or "sha256", b"bytes")
    digest = name + (base64.b64encode(found.digest()).decode() if name.startswith("sha") else found.hexdigest())
    stores = handed.site.warden._deployment.stores
    assert holds(stores, f"file://{path}", digest)
    path.write_bytes(b"Bytes")
    assert not holds(stores, f"file://{path}", digest)


def test_a_digest_that_nobody_can_make_vouches_for_nothing(handed: Handed, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    assert not holds(handed.site.warden._deployment.stores, f"file://{tmp_path}/file", "crc64nvme:AAAAAAAAAAA=")


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("most", [1 << 30, 1])
def test_a_drill_brings_a_snapshot_back_and_leaves_nothing(handed: Handed, most: int, tmp_path: Path) -> None:
    """Whole where it is small enough; else its metadata and its smallest file."""
    deployment = handed.site.warden._deployment
    cold, tables = files_below(handed.site.base / "cold"), handed.site.catalog().list_tables("sales")
    [snapshot] = deployment.ledger.cold.find(handed.number)
    found = drill_cold(deployment, snapshot, f"file://{tmp_path}/drill/", most, lambda *_: None)
    copied = files_below(tmp_path / "drill")
    assert found.status is DrillStatus.PROVEN
    assert found.what.startswith(f"snapshot {handed.number} of lake.sales.orders")
    if most == 1:
        assert (found.files, len(copied)) == (1, 1)
        assert "smallest file" in found.what
    else:
        assert found.files == len(copied) - 1 > 3  # and the metadata that was written for them
        written = next(path for path in copied if path.name.endswith(".metadata.json"))
        assert rows_at(StaticTable.from_metadata(f"file://{written}"), handed.number) == handed.rows
    assert files_below(handed.site.base / "cold") == cold
    assert handed.site.catalog().list_tables("sales") == tables
    proven = handed.site.warden.restore_drill().drills[1]
    assert proven.status is DrillStatus.PROVEN, proven
    assert not files_below(handed.site.base / "state" / "drills")


@pytest.mark.parametrize("kind", ["data", "manifest", "list"])
def test_a_drill_tells_of_other_bytes(handed: Handed, kind: str, tmp_path: Path) -> None:
    deployment = handed.site.warden._deployment
    [snapshot] = deployment.ledger.cold.find(handed.number)
    path = local_path(addresses(handed)[kind])
    raw = path.read_bytes()
    path.write_bytes(turned(path, kind))
    try:
        with pytest.raises(LakewardenError, match="other bytes than were handed over"):
            drill_cold(deployment, snapshot, f"file://{tmp_path}/drill/", 1 << 30, lambda *_: None)
        if kind != "data":
            with pytest.raises(LakewardenError, match="other bytes than were handed over"):
                drill_cold(deployment, snapshot, f"file://{tmp_path}/small/", 1, lambda *_: None)
    finally:
        path.write_bytes(raw)
