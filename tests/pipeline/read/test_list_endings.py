"""A list cut exactly between two blocks is a healthy file: totals prove it, or its last block does, or its table is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakewarden.formats.avro import read_avro
from lakewarden.formats.iceberg.manifests.files import read_list
from lakewarden.formats.iceberg.manifests.reader import IcebergReader
from lakewarden.formats.paimon.manifests.reader import PaimonReader
from lakewarden.model.avro_frames import SYNC_BYTES, blocks, header, long
from lakewarden.model.errors import UnprovenListError
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.manifests import ReadTask, read_lists
from lakewarden.pipeline.read.notes import note_refusal
from lakewarden.storage.stores import Stores
from tests.support.lakes import local_path, small_lake, write_table

TASK = ReadTask(Stores(), {"iceberg": IcebergReader(), "paimon": PaimonReader()})
EACH = 3  # live files of each manifest
JAVA = 64_000


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The list of a table by PyIceberg."""
    catalog = small_lake(tmp_path_factory.mktemp("endings"), ()).catalog()
    catalog.create_namespace("n")
    snapshot = write_table(catalog, "n.t").current_snapshot()
    catalog.close()
    assert snapshot is not None
    return local_path(snapshot.manifest_list).read_bytes()


def grown(real: bytes, manifests: int, interval: int) -> bytes:
    """That list, with so many manifests, in blocks as another writer makes them."""
    file = read_avro(real, "list", as_stored=True)
    first = {**file.records[0], "added_files_count": EACH, "existing_files_count": 0}
    records = [{**first, "manifest_path": f"file:///lake/t/metadata/{n:036d}-m0.avro"} for n in range(manifests)]
    out = io.BytesIO()
    fastavro.writer(out, file.schema, records, codec="deflate", sync_interval=interval)
    return out.getvalue()


def cuts(data: bytes) -> list[bytes]:
    """The list cut behind each of its blocks but the last, and behind its header."""
    _, at = header(data)
    ends = [at + SYNC_BYTES]
    for count, block in blocks(data, at):
        ends.append(ends[-1] + len(long(count)) + len(long(len(block))) + len(block) + SYNC_BYTES)
    assert ends[-1] == len(data)
    return [data[:end] for end in ends[:-1]]


def read(path: Path, data: bytes, **told: Any) -> tuple[int, str | None]:
    """How many manifests the list names, and the code of the note on it."""
    path.write_bytes(data)
    row = {c.TABLE: 0, "format": "iceberg", "uri": f"file://{path}", "soft": False} | told
    listed = pa.Table.from_pylist([{name: row.get(name) for name in c.LISTS.names}], schema=c.LISTS)
    found = pa.Table.from_batches(read_lists(TASK)(listed.to_batches())).to_pylist()
    notes = [row["path"] for row in found if row["path"].startswith("!")]
    if notes:
        assert note_refusal(notes[0]).hint
    return len(found) - len(notes), json.loads(notes[0][1:])["error"] if notes else None


@pytest.mark.parametrize("interval", [16_000, JAVA])
def test_without_totals_every_cut_refuses_the_table(real: bytes, tmp_path: Path, interval: int) -> None:
    whole = grown(real, 1500, interval)
    assert len(cuts(whole)) > 2
    for cut in cuts(whole):
        assert read(tmp_path / "list.avro", cut) == (0, "LW-TABLE-011")


def test_with_totals_every_cut_is_known_for_what_it_is(real: bytes, tmp_path: Path) -> None:
    whole = grown(real, 1500, JAVA)
    totals = {"data_files": 1500 * EACH, "delete_files": 0}
    for cut in cuts(whole):
        assert read(tmp_path / "list.avro", cut, **totals) == (0, "LW-TABLE-002")
    assert read(tmp_path / "list.avro", whole, **totals) == (1500, None)


def test_totals_of_data_alone_do_not_tell_that_deletes_are_lost(real: bytes, tmp_path: Path) -> None:
    """Manifests of deletes come last in a list."""
    whole = grown(real, 1500, JAVA)
    cut = cuts(whole)[-1]
    kept = len(read_avro(cut, "list").records)
    assert read(tmp_path / "list.avro", cut, data_files=kept * EACH) == (0, "LW-TABLE-011")
    assert read(tmp_path / "list.avro", cut, data_files=kept * EACH, delete_files=0) == (kept, None)


@pytest.mark.parametrize("manifests", [1, 20, 60, 150, 1100])
def test_without_totals_a_list_that_ends_as_writers_end_it_is_believed(
    real: bytes, tmp_path: Path, manifests: int
) -> None:
    assert read(tmp_path / "list.avro", grown(real, manifests, JAVA)) == (manifests, None)


def test_a_list_as_a_real_writer_left_it_needs_no_totals(real: bytes, tmp_path: Path) -> None:
    named, note = read(tmp_path / "list.avro", real)
    assert named > 0
    assert note is None


@pytest.mark.parametrize("totals", [{}, {"total-data-files": "900"}, {"total-delete-files": "0"}])
def test_a_commit_does_not_build_on_such_a_list_either(real: bytes, totals: dict[str, str]) -> None:
    data = cuts(grown(real, 900, JAVA))[1]
    count = str(len(read_avro(data, "list").records) * EACH)
    summary = {name: count if name == "total-data-files" else value for name, value in totals.items()}

    class Files:
        def get(self, uri: str) -> bytes:
            return data

    snapshot = {"snapshot-id": 1, "manifest-list": "s3://b/t/snap-1.avro", "summary": summary}
    with pytest.raises(UnprovenListError, match=r"s3://b/t/snap-1.avro may have lost its end"):
        read_list(Files(), snapshot)  # type: ignore[arg-type]
    proven = {**snapshot, "summary": {"total-data-files": count, "total-delete-files": "0"}}
    assert len(read_list(Files(), proven).records) * EACH == int(count)  # type: ignore[arg-type]
