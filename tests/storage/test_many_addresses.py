"""Many files asked for at once are the files that were asked for, however their addresses are spelled."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.model.uri import FileUri, is_address
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.stores import Stores, _keys

STEPS = st.sampled_from(["a", "b c", ".", "", "%2F", "x=1", "é"])
STARTS = st.sampled_from(["/", "file:/", "file:///", "file://localhost/", "s3://b/", "s3a://b/", "s3://b//", "gs://x/"])


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(STARTS, st.lists(STEPS, max_size=4)), max_size=6))
def test_keys_of_many_are_the_keys_of_each(parts: list[tuple[str, list[str]]]) -> None:
    uris = [uri for start, steps in parts if is_address(uri := start + "/".join(steps))]
    assert _keys(uris) == [FileUri.parse(uri).key for uri in uris]


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    disk = LocalDisk()
    for size in (0, 1, 4096, 4097, 100_000):
        data = os.urandom(size)
        (tmp_path / "f").write_bytes(data)
        assert disk.get(f"{tmp_path}/f"[1:]) == data
        assert disk.get_range(f"{tmp_path}/f"[1:], 3, 1000) == data[3:1003]
        assert disk.get_range(f"{tmp_path}/f"[1:], size, 10) == b""


def test_a_file_whose_size_the_disk_does_not_tell(tmp_path: Path) -> None:
    """Of a size of 0, or of one that grew since."""
    assert LocalDisk().get("proc/self/status").startswith(b"Name:")
    assert len(LocalDisk().get("proc/kallsyms")) > 4096


def test_each_answer_is_where_it_was_asked_for(tmp_path: Path) -> None:
    for name in ("a/1", "b/1", "a/2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    names = ["a/2", "b/1", "a/none", "a/1", "a/2"]
    found = Stores().get_many([f"file://{tmp_path}/{name}" for name in names])
    assert [answer if isinstance(answer, bytes) else type(answer) for answer in found] == [
        b"a/2", b"b/1", FileNotFoundError, b"a/1", b"a/2",
    ]  # fmt: skip
