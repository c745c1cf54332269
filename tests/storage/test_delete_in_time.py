"""A permit ends when it ends: not after the chunk that is under way, nor when a client library has tried once more."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakewarden.storage import delete as door
from lakewarden.storage.delete import delete
from lakewarden.storage.stores import Stores
from tests.storage.test_delete import Turned, filled, listed, permit
from tests.support.fault_proxy import busy_before, fault_proxy, lost, method, slow_answer
from tests.support.storage import SHARED, Place, Seaweed


def test_a_process_that_is_stopped_between_two_files_goes_on_with_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped for 40 s after the fiftieth file: another table may have taken in all that are left."""
    for number in range(300):
        (tmp_path / f"{number:03d}").write_bytes(b"x")
    root = f"file://{tmp_path}/"
    files = sorted(listed(Stores(), root), key=lambda file: file.uri)
    clock = Turned()
    real, gone = os.unlink, []

    def unlink(name: str, *, dir_fd: int) -> None:
        real(name, dir_fd=dir_fd)
        gone.append(name)
        if len(gone) == 50:
            clock.sleep(40)

    monkeypatch.setattr(os, "unlink", unlink)
    found = delete(permit(root, files), Stores(), files, clock)
    assert [(o.outcome, o.code) for o in found] == [("deleted", None)] * 50 + [("failed", "LW-APPLY-002")] * 250
    assert len(os.listdir(tmp_path)) == 250


def test_a_directory_is_not_removed_by_a_permit_that_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakewarden.model.ports import JournalFile
    from lakewarden.storage.directories import directory_tag

    (tmp_path / "root" / "d").mkdir(parents=True)
    root, place = f"file://{tmp_path}/root/", tmp_path / "root" / "d"
    files = [JournalFile(f"file://{place}/", 0, None, directory_tag(os.lstat(place)), "t", "other")]
    clock = Turned()
    real = directory_tag

    def slowly(found: os.stat_result) -> str:
        clock.sleep(40)
        return real(found)

    monkeypatch.setattr(door, "directory_tag", slowly)
    assert [(o.outcome, o.code) for o in delete(permit(root, files), Stores(), files, clock)] == [
        ("failed", "LW-APPLY-002")
    ]
    assert place.is_dir()


def test_no_request_leaves_that_could_not_end_in_time(place: Place) -> None:
    """With one second left a request would be under way when the permit ends."""
    files = filled(place, ["a", "b"])
    clock = Turned()
    allowed = permit(place.root, files)
    clock.sleep(29)
    found = delete(allowed, place.stores, files, clock)
    expected = ("deleted", None) if place.kind == "local" else ("failed", "LW-APPLY-002")
    assert {(outcome.outcome, outcome.code) for outcome in found} == {expected}


@pytest.mark.parametrize("fault", [busy_before, lost])
def test_no_client_sends_a_delete_twice(seaweed: Seaweed, fault: object) -> None:
    with fault_proxy(seaweed.endpoint) as proxy:
        stores = Stores({f"s3://{SHARED}": {**seaweed.options(), "endpoint": proxy.endpoint}})
        _, root = seaweed.fresh()
        for name in "ab":
            stores.put(root + name, b"x")
        files = listed(stores, root)
        proxy.on(method("POST", query="delete"), fault, times=None)  # type: ignore[arg-type]
        delete(permit(root, files), stores, files, Turned())
        assert proxy.requests("POST", query="delete") == 1


def test_a_delete_gives_up_within_its_permit(seaweed: Seaweed) -> None:
    with fault_proxy(seaweed.endpoint) as proxy:
        stores = Stores({f"s3://{SHARED}": {**seaweed.options(), "endpoint": proxy.endpoint}})
        _, root = seaweed.fresh()
        stores.put(root + "f", b"x")
        files = listed(stores, root)
        proxy.on(method("POST", query="delete"), slow_answer(10))
        clock = Turned()
        allowed = permit(root, files)
        clock.sleep(25)
        began = time.monotonic()
        (found,) = delete(allowed, stores, files, clock)
        assert time.monotonic() - began < 8
        assert found.outcome == "deleted"
