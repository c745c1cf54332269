"""A file that lost a byte gives an error, never fewer rows: a reader that loses rows loses data."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import psutil
import pyarrow as pa
import pytest
from fastavro.io.binary_decoder import BinaryDecoder
from fastavro.io.binary_encoder import BinaryEncoder
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.model.errors import IncompleteManifestError, StoreUnavailableError
from lakewarden.pipeline.read.avro import decode
from lakewarden.pipeline.read.avro.container import Container, merge, open_container
from lakewarden.pipeline.read.avro.decode import decode_files, field_names

FILE = {
    "type": "record",
    "name": "file",
    "fields": [
        {"name": "file_path", "type": "string"},
        {"name": "content", "type": ["null", "int"], "default": None},
    ],
}
SCHEMA = {
    "type": "record",
    "name": "entry",
    "fields": [{"name": "status", "type": "int"}, {"name": "data_file", "type": FILE}],
}
COLUMNS = {"path": "data_file.file_path", "status": "status", "content": "data_file.content"}
CODECS = ("null", "deflate", "snappy", "zstandard")

entries = st.builds(
    lambda status, path, content: {"status": status, "data_file": {"file_path": path, "content": content}},
    st.integers(0, 2),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    st.none() | st.integers(0, 2),
)


def avro(records: list[dict[str, Any]], codec: str = "deflate", block: int = 16000) -> bytes:
    out = io.BytesIO()
    packed = codec in PACKERS
    fastavro.writer(out, SCHEMA, records, codec="null" if packed else codec, sync_interval=block)
    return repacked(out.getvalue(), codec) if packed else out.getvalue()


def snappy(block: bytes) -> bytes:
    return bytes(pa.compress(block, "snappy", asbytes=True)) + zlib.crc32(block).to_bytes(4, "big")


def zstandard(block: bytes) -> bytes:
    return bytes(pa.compress(block, "zstd", asbytes=True))


PACKERS = {"snappy": snappy, "zstandard": zstandard}


def repacked(data: bytes, codec: str) -> bytes:
    """The same file with its blocks packed by a codec that fastavro cannot write without more libraries."""
    start = data.index(data[-16:]) + 16
    header = data[:start].replace(number(4) + b"null", number(len(codec)) + codec.encode(), 1)
    source = io.BytesIO(data[start:])
    out = io.BytesIO()
    while source.tell() < len(data) - start:
        rows, size = read_long(source), read_long(source)
        block = PACKERS[codec](source.read(size))
        out.write(number(rows) + number(len(block)) + block + source.read(16))
    return header + out.getvalue()


def number(value: int) -> bytes:
    out = io.BytesIO()
    BinaryEncoder(out).write_long(value)
    return out.getvalue()


def read_long(source: io.BytesIO) -> int:
    return int(BinaryDecoder(source).read_long())


def some(count: int) -> list[dict[str, Any]]:
    return [
        {"status": i % 2, "data_file": {"file_path": f"s3://b/t/data/{i}.parquet", "content": 0}} for i in range(count)
    ]


def rows_of(blobs: list[bytes | Exception]) -> tuple[dict[int, list[dict[str, Any]]], dict[int, Exception]]:
    """Each file's rows by its place, and each file's error."""
    decoded, counts, errors, _ = decode_files(blobs, lambda names: COLUMNS)
    rows: dict[int, list[dict[str, Any]]] = {i: [] for i in range(len(blobs)) if i not in errors}
    for part in decoded:
        for owner, row in zip(part.owner, part.table.to_pylist(), strict=True):
            rows[int(owner)].append(row)
    assert {i: len(found) for i, found in rows.items()} == {i: int(counts[i]) for i in rows}
    return rows, errors


def flat(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"path": r["data_file"]["file_path"], "status": r["status"], "content": r["data_file"]["content"]}
        for r in records
    ]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.lists(entries, max_size=12), st.sampled_from(CODECS), st.integers(1, 200)), max_size=5))
def test_many_files_decoded_together_give_what_each_gives_alone(
    files: list[tuple[list[dict[str, Any]], str, int]],
) -> None:
    rows, errors = rows_of([avro(*file) for file in files])
    assert not errors
    assert [rows[i] for i in range(len(files))] == [flat(records) for records, _, _ in files]


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_cut_anywhere_is_refused_or_has_lost_whole_blocks_that_its_list_counts(codec: str) -> None:
    """Between two blocks a cut leaves a healthy file; its length and row count then differ from what its list says."""
    records = some(12)
    whole = avro(records, codec, block=60)
    healthy = []
    for end in range(len(whole)):
        try:
            healthy.append((end, open_container(whole[:end])))
        except IncompleteManifestError:
            continue
    assert len(healthy) >= 3
    assert all(container.rows < len(records) for _, container in healthy)
    rows, errors = rows_of([whole[:end] for end, _ in healthy])
    assert not errors
    assert [rows[i] for i in range(len(healthy))] == [flat(records)[: c.rows] for _, c in healthy]


def test_no_bytes_and_half_of_them_are_errors_beside_healthy_files() -> None:
    good = avro(some(3))
    rows, errors = rows_of([good, b"", good[: len(good) // 2], FileNotFoundError("x"), good])
    assert set(rows) == {0, 4}
    assert rows[4] == flat(some(3))
    assert isinstance(errors[3], FileNotFoundError)
    assert all(isinstance(errors[i], IncompleteManifestError) for i in (1, 2))


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_byte_never_gives_fewer_rows_without_an_error(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncompressed, a flip can turn a name into another name: as many names stay, so a needed one is then missing
    from the listing, and the live-missing brake refuses the table (tests/jobs/orphan_cleanup/test_damage.py)."""
    monkeypatch.setattr(decode, "BASE_SECONDS", 3.0)
    records = some(3)
    whole = avro(records, codec)
    body = whole.index(whole[-16:]) + 16
    damaged = [
        whole[:i] + bytes([whole[i] ^ 0x10]) + whole[i + 1 :] for i in [*range(0, body, 5), *range(body, len(whole))]
    ]
    rows, errors = rows_of(list(damaged))
    assert len(errors) > 20
    assert {len(found) for found in rows.values()} <= {3}
    if codec in ("deflate", "snappy"):
        renamed = [found for found in rows.values() if found != flat(records)]
        assert not renamed


def test_a_file_whose_frames_lie_about_their_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "BASE_SECONDS", 3.0)
    whole = open_container(avro(some(4)))
    rows, errors = rows_of([b"".join(merge([Container(whole.schema, told, whole.body)])) for told in (3, 4, 9)])
    assert set(rows) == {1}
    assert set(errors) == {0, 2}


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A decoder that takes its request and never answers, as a damaged block has made a real one do."""
    script = tmp_path / "stuck"
    script.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nopen({str(tmp_path / 'pid')!r}, 'a').write(str(os.getpid()) + ' ')\n"
        "sys.stdin.readline()\ntime.sleep(600)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(decode, "BASE_SECONDS", 0.5)
    decode._decoder.cache_clear()
    yield tmp_path / "pid"
    decode._decoder().close()
    decode._decoder.cache_clear()


def test_a_decoder_that_hangs_is_killed_and_its_file_refused(stuck: Path) -> None:
    began = time.monotonic()
    decoded, _, errors, _ = decode_files([avro(some(2))], lambda names: COLUMNS)
    assert not decoded
    assert "no answer" in str(errors[0])
    assert time.monotonic() - began < 10
    assert not psutil.pid_exists(int(stuck.read_text().split()[0]))
    following = decode._decoder()._child
    assert following is not None, "nobody would remove the directory"
    assert following.poll() is None


def test_a_decoder_that_is_killed_says_nothing_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for its memory, by a machine that has too little."""
    asked: list[int] = []
    answered = decode._answered

    def killed_once(child: Any, request: str, seconds: float) -> str | None:
        if not asked:
            child.kill()
        asked.append(child.pid)
        return answered(child, request, seconds)

    monkeypatch.setattr(decode, "_answered", killed_once)
    rows, errors = rows_of([avro(some(2))])
    assert not errors
    assert rows[0] == flat(some(2))
    assert len(set(asked)) == 2


def test_after_a_kill_the_next_file_is_decoded_by_a_new_child(monkeypatch: pytest.MonkeyPatch) -> None:
    decode._decoder().close()
    rows, errors = rows_of([avro(some(2))])
    assert not errors
    assert rows[0] == flat(some(2))


@pytest.fixture
def worker(tmp_path: Path) -> Callable[[str], Path]:
    """A process that decodes and ends as a Spark worker does, without cleaning up, while a service manager ends them all;
    it tells its scratch directory."""

    def run(start: str) -> Path:
        (tmp_path / "file.avro").write_bytes(avro(some(3)))
        script = f"""
import os, signal
from lakewarden.pipeline.read.avro import decode
decode._decoder().{start}()
found, _, errors, _ = decode.decode_files([open("file.avro", "rb").read()], lambda names: {COLUMNS})
assert not errors, errors
print(decode._decoder()._scratch.name, found[0].table.num_rows, flush=True)
os.kill(decode._decoder()._child.pid, signal.SIGTERM)
os._exit(0)
"""
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        scratch, rows = done.stdout.split()
        assert rows == "3"
        return Path(scratch)

    return run


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


@pytest.mark.parametrize("start", ["start", "fork"])
def test_a_worker_that_ends_leaves_nothing_in_shared_memory(worker: Callable[[str], Path], start: str) -> None:
    scratch = worker(start)
    assert until(lambda: not scratch.exists())


@pytest.fixture
def abandoned(tmp_path: Path) -> Callable[[str, str, float], tuple[int, Path]]:
    """A decoder that was asked, and whose worker is gone. Its process and its scratch directory."""

    def run(start: str, meanwhile: str, seconds: float) -> tuple[int, Path]:
        script = f"""
import json, os, signal
from lakewarden.pipeline.read.avro import decode
decode.SHARED_MEMORY = os.getcwd()
decoder = decode._decoder()
decoder.{start}()
child, scratch = decoder._child, decoder._scratch.name
request = json.dumps({{"columns": {{}}, "seconds": {seconds}, "memory": 1 << 30}})
{meanwhile}
print(child.pid, scratch, flush=True)
child.stdin.write(request + "\\n")
child.stdin.flush()
os._exit(0)
"""
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        pid, scratch = done.stdout.split()
        return int(pid), Path(scratch)

    return run


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("start", ["start", "fork"])
def test_a_decoder_that_hangs_ends_although_nobody_waits_for_it(
    abandoned: Callable[[str, str, float], tuple[int, Path]], start: str
) -> None:
    """It opens a pipe that nobody writes to, as a damaged block makes it read for ever."""
    pid, _ = abandoned(start, "os.mkfifo(scratch + '/in.avro')", 0.5)
    assert until(lambda: ended(pid))


@pytest.mark.parametrize("start", ["start", "fork"])
def test_a_decoder_that_nobody_waits_for_cleans_up_when_it_is_done(
    abandoned: Callable[[str, str, float], tuple[int, Path]], start: str
) -> None:
    at_work = "assert decode._answered(child, request, 60)\nos.kill(child.pid, signal.SIGSTOP)"
    pid, scratch = abandoned(start, f"{at_work}\nassert os.path.exists(scratch)", 60)
    # A system wakes stopped processes itself when nobody is left who could.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    assert until(lambda: ended(pid) and not scratch.exists())


def test_nested_field_names_are_found() -> None:
    assert set(field_names(open_container(avro([])).schema)) == {
        "status", "data_file", "data_file.file_path", "data_file.content",
    }  # fmt: skip


def test_a_codec_nobody_knows_is_an_error() -> None:
    with pytest.raises(IncompleteManifestError, match="codec"):
        open_container(avro(some(1), "null").replace(b"null", b"nulk", 1))


def test_a_machine_without_room_is_not_a_damaged_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder may write 200 bytes and no more, as on a full disk."""

    def cramped() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    decoder = decode.Decoder()
    start = subprocess.Popen
    monkeypatch.setattr(decode.subprocess, "Popen", lambda *words, **how: start(*words, **how, preexec_fn=cramped))
    monkeypatch.setattr(decode, "_decoder", lambda: decoder)
    try:
        with pytest.raises(StoreUnavailableError, match="cannot hold"):
            decode_files([avro(some(1000))], lambda names: COLUMNS)
    finally:
        decoder.close()


def test_little_shared_memory_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker gives a container 64 MB of it."""
    monkeypatch.setattr(decode.shutil, "disk_usage", lambda place: SimpleNamespace(free=64 << 20))
    decoder = decode.Decoder()
    assert not decoder._scratch.name.startswith(decode.SHARED_MEMORY)
