"""Trash: copied whole before anything goes, brought back create-only, purged through the door."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.model.errors import LeaseLostError
from lakewarden.storage.delete import delete
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.quarantine import copy_to_trash, purge, restore, trash_address
from lakewarden.storage.stores import Stores
from tests.storage.test_delete import Turned, filled, fine, listed, permit
from tests.support.storage import Place


@pytest.fixture(params=["same store", "another store"])
def trash(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> str:
    if request.param == "same store":
        return place.root.removesuffix("wh/") + "trash/"
    return f"memory://trash{uuid.uuid4().hex}/bin/" if place.kind != "memory" else f"file://{tmp_path}/bin/"


def test_quarantine_restore_purge(place: Place, trash: str) -> None:
    files = filled(place, ["a%20b", "d/a#1", "é", "later"])
    place.stores.put(place.uri("later"), b"changed since")
    copies = copy_to_trash(place.stores, trash, "r", files)
    outcomes = {copy.uri.removeprefix(place.root): copy.outcome for copy in copies}
    assert outcomes == {"a%20b": "kept", "d/a#1": "kept", "é": "kept", "later": "changed"}
    copied = [file for file in files if not file.uri.endswith("later")]
    assert {r.outcome for r in delete(permit(place.root, copied), place.stores, copied, Turned())} == {"deleted"}
    assert {f.uri for f in listed(place.stores, place.root)} == {place.uri("later")}
    assert place.stores.get(trash_address(trash, "r", place.uri("d/a#1"))) == b"x"

    place.stores.put(place.uri("é"), b"somebody else's")
    back = restore(place.stores, trash, "r", [place.uri("a%20b"), place.uri("é"), place.uri("never")])
    assert [result.outcome for result in back] == ["kept", "changed", "absent"]
    assert place.stores.get(place.uri("a%20b")) == b"x"
    assert place.stores.get(place.uri("é")) == b"somebody else's"

    place.stores.put(f"{trash}other-run/f", b"x")
    gone = [r for batch in purge(place.stores, trash, "r", Turned(), check_lease=fine) for r in batch]
    assert {r.outcome for r in gone} == {"deleted"}
    assert [f.uri for f in listed(place.stores, trash)] == [f"{trash}other-run/f"]


def test_a_copy_that_is_not_whole_is_a_failure(place: Place, trash: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = filled(place, ["f"])
    target = place.stores.at(trash)
    real = type(target).put_stream
    monkeypatch.setattr(type(target), "put_stream", lambda self, key, pieces: real(self, key, iter([b"?"])))
    monkeypatch.setattr(type(target), "copy", lambda self, src, dst: self.put(dst, b"?"))
    (result,) = copy_to_trash(place.stores, trash, "r", files)
    assert (result.outcome, result.code) == ("failed", "LW-STORE-001")
    assert place.stores.get(place.uri("f")) == b"x"


def test_large_copies_are_compared_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte of ten million is another one: the size says nothing."""
    (tmp_path / "wh").mkdir()
    (tmp_path / "wh" / "f").write_bytes(b"x" * 10_000_000)
    files = listed(Stores(), f"file://{tmp_path}/wh/")
    real = LocalDisk.put_stream

    def flipped(disk: LocalDisk, key: str, pieces: Iterator[bytes]) -> None:
        real(disk, key, iter([b"".join(pieces)[:-1] + b"y"]))

    with monkeypatch.context() as faulty:
        faulty.setattr(LocalDisk, "put_stream", flipped)
        (result,) = copy_to_trash(Stores(), f"file://{tmp_path}/bin/", "r", files)
    assert (result.outcome, result.code) == ("failed", "LW-STORE-001")
    (again,) = copy_to_trash(Stores(), f"file://{tmp_path}/bin/", "other", files)
    assert (again.outcome, again.message) == ("kept", hashlib.sha256(b"x" * 10_000_000).hexdigest())


def test_a_changed_copy_is_not_brought_back(place: Place, trash: str) -> None:
    files = filled(place, ["a", "b"])
    copies = {copy.uri: copy.message for copy in copy_to_trash(place.stores, trash, "r", files)}
    delete(permit(place.root, files), place.stores, files, Turned())
    place.stores.put(trash_address(trash, "r", place.uri("a")), b"y")
    back = restore(place.stores, trash, "r", [place.uri("a"), place.uri("b")], copies)
    assert [(result.outcome, result.code) for result in back] == [("failed", "LW-STORE-009"), ("kept", None)]
    assert place.stores.head(place.uri("a")) is None


def test_copying_first_is_safe_to_repeat(place: Place, trash: str) -> None:
    files = filled(place, ["f"])
    for _ in range(2):
        assert [r.outcome for r in copy_to_trash(place.stores, trash, "r", files)] == ["kept"]
    assert place.stores.get(trash_address(trash, "r", place.uri("f"))) == b"x"
    place.stores.put(place.uri("gone"), b"x")
    gone = [file for file in listed(place.stores, place.root) if file.uri.endswith("gone")]
    delete(permit(place.root, gone), place.stores, gone, Turned())
    assert [r.outcome for r in copy_to_trash(place.stores, trash, "r", gone)] == ["absent"]


def test_purge_needs_a_lease_and_a_run() -> None:
    def lost() -> None:
        raise LeaseLostError("gone")

    stores, trash = Stores(), f"memory://t{uuid.uuid4().hex}/trash/"
    stores.put(f"{trash}run/f", b"x")
    with pytest.raises(LeaseLostError):
        list(purge(stores, trash, "run", Turned(), check_lease=lost))
    for run_id in ("", "..", ".", "a/b"):
        with pytest.raises(ValueError, match="not a run"):
            list(purge(stores, trash, run_id, Turned(), check_lease=fine))
    assert stores.get(f"{trash}run/f") == b"x"
