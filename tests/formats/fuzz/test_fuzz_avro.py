"""Damaged lists, manifests and index manifests of real tables: a note that refuses the table, or every name that there was."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.formats.avro import read_avro
from lakewarden.formats.iceberg.manifests.reader import IcebergReader
from lakewarden.formats.iceberg.relocation.addresses import relocate_list, relocate_manifest
from lakewarden.formats.paimon.manifests.reader import PaimonReader
from lakewarden.model.errors import LakewardenError
from lakewarden.model.tiers import Move
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.avro import decode
from lakewarden.pipeline.read.manifests import ReadTask, read_entries, read_lists
from lakewarden.pipeline.read.partitions import count_partitions
from lakewarden.storage.stores import Stores
from tests.foreign.bounds import within
from tests.formats.fuzz.effort import few, many
from tests.formats.fuzz.mutations import damaged_bytes, damaged_frames
from tests.formats.fuzz.real import real_iceberg, real_paimon

TASK = ReadTask(Stores(), {"iceberg": IcebergReader(), "paimon": PaimonReader()})
AT_ONCE = 12
MOVE = Move("file:///lake/", "s3://cold/t/")


@dataclass(frozen=True)
class Real:
    """One real file, and the row by which it is asked for. `sealed`: its blocks have checksums."""

    kind: str
    data: bytes
    row: dict[str, Any]
    sealed: bool

    @property
    def is_list(self) -> bool:
        return self.kind.endswith("list")


def row_of(schema: pa.Schema, **values: Any) -> dict[str, Any]:
    return {name: values.get(name) for name in schema.names}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("BASE_SECONDS", 4.0), ("SECONDS_PER_MB", 0.1), ("LEAST_SECONDS", 1.0)):
            patch.setattr(decode, name, value)
        yield tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def files(place: Path) -> list[Real]:
    iceberg, paimon = real_iceberg(place / "iceberg"), real_paimon(place / "paimon")
    found = []
    snapshots = {Path(s["manifest-list"].removeprefix("file://")): s for s in iceberg.document["snapshots"]}
    for path in iceberg.lists[:2]:
        summary = snapshots[path]["summary"]
        totals = {"data_files": int(summary["total-data-files"]), "delete_files": int(summary["total-delete-files"])}
        row = row_of(c.LISTS, format="iceberg", soft=False, **totals)
        found.append(Real("iceberg list", path.read_bytes(), row, True))
        records = read_avro(path.read_bytes(), str(path)).records
    for record in records[:2]:
        counts = [record[f"{what}_files_count"] for what in ("added", "existing", "deleted")]
        row = row_of(c.MANIFESTS, format="iceberg", soft=False, content=0, length=record["manifest_length"],
                     rows=sum(counts), live=counts[0] + counts[1])  # fmt: skip
        data = Path(record["manifest_path"].removeprefix("file://")).read_bytes()
        found.append(Real("iceberg manifest", data, row, True))
    home = {c.HOME: "by-name:t/"}
    latest = paimon.json("snapshot/snapshot-3")
    for name, length in (("baseManifestList", "baseManifestListSize"), ("deltaManifestList", None)):
        data = (paimon.path / "manifest" / latest[name]).read_bytes()
        row = row_of(c.LISTS, format="paimon", soft=False, length=latest[length] if length else None, **home)
        found.append(Real("paimon list", data, row, False))
        for record in read_avro(data, name).records[:1]:
            row = row_of(
                c.MANIFESTS, format="paimon", soft=False, content=0, length=record["_FILE_SIZE"], rows=1, live=1, **home
            )
            manifest = (paimon.path / "manifest" / record["_FILE_NAME"]).read_bytes()
            found.append(Real("paimon manifest", manifest, row, False))
    index = (paimon.path / "manifest" / latest["indexManifest"]).read_bytes()
    row = row_of(c.MANIFESTS, format="paimon", soft=False, content=c.CONTENT_INDEX, **home)
    return [*found, Real("paimon index", index, row, False)]


def names_in(place: Path, real: Real, several: list[bytes]) -> list[set[str] | None]:
    """What each of these files names, read together by one task; None for one that refuses its table."""
    found: list[set[str] | None] = [set() for _ in several]
    rows = []
    for number, data in enumerate(several):
        path = place / f"{number}.avro"
        path.write_bytes(data)
        rows.append(real.row | {c.TABLE: number, "uri" if real.is_list else "path": f"file://{path}"})
    if real.is_list:
        listed = pa.Table.from_pylist([{n: r.get(n) for n in c.LISTS.names} for r in rows], schema=c.LISTS)
        told = [r for batch in read_lists(TASK)(listed.to_batches()) for r in batch.to_pylist()]
        pairs = [(r[c.TABLE], r["path"]) for r in told]
    else:
        asked = pa.Table.from_pylist([{n: r.get(n) for n in c.MANIFESTS.names} for r in rows], schema=c.MANIFESTS)
        pairs = []
        for whole, marks, notes in read_entries(TASK)(asked.to_batches()):
            pairs += [(r[c.TABLE], r[c.KEY]) for r in marks.to_pylist()]
            pairs += [(json.loads(note[1:])["table"], note) for note in notes]
            assert set(whole) | {json.loads(note[1:])["table"] for note in notes} == set(range(len(several)))
        for batch in count_partitions(TASK)(asked.to_batches()) if real.kind != "paimon index" else ():
            batch.to_pylist()
    for number, name in pairs:
        if name.startswith("!"):
            json.dumps(json.loads(name[1:])).encode()
            found[number] = None
    for number, name in pairs:
        if (names := found[number]) is not None:
            names.add(name)
    return found


def check(place: Path, real: Real, several: list[bytes]) -> None:
    healthy, *damaged = names_in(place, real, [real.data, *several])
    assert healthy, "its neighbours' damage says nothing of it"
    for data, names in zip(several, damaged, strict=True):
        if names is not None and (real.sealed or len(data) != len(real.data)) and not emptied(real, data):
            assert names >= healthy, (real.kind, data)
        elif names is not None and not emptied(real, data):
            assert len(names) >= len(healthy)
    for data in several:
        with within(10, 150), suppress(LakewardenError):
            read_avro(data, "m", as_stored=True)
        for relocate in (relocate_list, relocate_manifest) if real.kind.startswith("iceberg") else ():
            with suppress(LakewardenError):
                relocate(data, "m", MOVE, lambda uris: dict.fromkeys(uris, 1))


def emptied(real: Real, data: bytes) -> bool:
    """A list of Paimon without a block, in a snapshot that does not say how long it is: the first commit has one."""
    return real.kind == "paimon list" and real.row["length"] is None and len(data) < len(real.data)


def draw_and_check(place: Path, files: list[Real], data: st.DataObject) -> None:
    real = data.draw(st.sampled_from(files))
    # Another manifest in an index manifest's place names other files, and nobody recorded how long the right one is.
    others = [file.data for file in files if file.kind != real.kind and real.kind != "paimon index"]
    one = st.one_of(damaged_frames(real.data), damaged_bytes(real.data, others))
    check(place, real, data.draw(st.lists(one, min_size=AT_ONCE, max_size=AT_ONCE)))


@few(20)
@given(data=st.data())
def test_a_damaged_file_refuses_its_table_or_names_all_it_did(
    place: Path, files: list[Real], data: st.DataObject
) -> None:
    draw_and_check(place, files, data)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@many(20)
@given(data=st.data())
def test_many_damaged_files(place: Path, files: list[Real], data: st.DataObject) -> None:
    draw_and_check(place, files, data)
