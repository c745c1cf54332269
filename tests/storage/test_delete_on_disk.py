"""The door on a local disk: directory by directory, never through a link, by as many threads as its answers need."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from lakewarden.model.ports import JournalFile
from lakewarden.storage.delete import delete, grant
from lakewarden.storage.directories import directory_tag
from lakewarden.storage.stores import Stores
from tests.storage.test_delete import Turned, listed, run


class Later(Turned):
    """As if the disk took its time: the clock goes on with every look at it."""

    def boot(self) -> float:
        self.at += 0.002
        return self.at


def planted(root: Path, directories: int, files: int) -> list[JournalFile]:
    for number in range(directories):
        place = root / "data" / f"p={number:03d}"
        place.mkdir(parents=True)
        for name in range(files):
            (place / f"{name}.parquet").write_bytes(b"x")
    return sorted(listed(Stores(), f"file://{root}/"), key=lambda file: file.uri)


def test_more_directories_than_are_kept_open(tmp_path: Path) -> None:
    files = planted(tmp_path / "root", directories=150, files=3)
    changed = Path(files[200].uri.removeprefix("file://"))
    changed.write_bytes(b"another")
    os.unlink(files[300].uri.removeprefix("file://"))
    found = run(Stores(), f"file://{tmp_path}/root/", files)
    assert [outcome for outcome in found.values() if outcome != "deleted"] == ["changed", "absent"]
    assert [file.uri for file in listed(Stores(), f"file://{tmp_path}/root/")] == [f"file://{changed}"]


def test_a_directory_goes_after_its_files_and_not_while_one_is_left(tmp_path: Path) -> None:
    files = planted(tmp_path / "root", directories=2, files=2)
    batch: list[JournalFile] = []
    for number, left in ((0, files[:2]), (1, files[2:3])):
        place = tmp_path / "root" / "data" / f"p={number:03d}"
        batch += left
        tag = directory_tag(os.lstat(place))
        batch.append(JournalFile(f"file://{place}/", 0, None, tag, "t", "other"))
    found = run(Stores(), f"file://{tmp_path}/root/", batch)
    assert list(found.values()) == ["deleted", "deleted", "deleted", "deleted", "changed"]
    assert (tmp_path / "root" / "data" / "p=001" / "1.parquet").exists()


def test_a_link_beside_an_open_directory_is_not_followed(tmp_path: Path) -> None:
    files = planted(tmp_path / "root", directories=3, files=1)
    os.rename(tmp_path / "root" / "data" / "p=001", tmp_path / "outside")
    (tmp_path / "root" / "data" / "p=001").symlink_to(tmp_path / "outside")
    found = run(Stores(), f"file://{tmp_path}/root/", files)
    assert list(found.values()) == ["deleted", "failed", "deleted"]
    assert (tmp_path / "outside" / "0.parquet").exists()


def test_below_the_outer_of_two_roots_no_link_is_followed(tmp_path: Path) -> None:
    files = planted(tmp_path / "root", directories=1, files=1)
    os.rename(tmp_path / "root" / "data", tmp_path / "outside")
    (tmp_path / "root" / "data").symlink_to(tmp_path / "outside")
    roots = [f"file://{tmp_path}/root/data/p=000/", f"file://{tmp_path}/root/"]
    permit = grant(
        plan_id="p", run_id="r", roots=roots, uris=[files[0].uri], validated_at=1000.0, check_lease=lambda: None
    )
    (found,) = delete(permit, Stores(), files, Turned())
    assert found.outcome == "failed"
    assert (tmp_path / "outside" / "p=000" / "0.parquet").exists()


def workers_of(root: Path, files: list[JournalFile], clock: Turned) -> int:
    """How many threads asked for the lease before they deleted."""
    asked: set[int] = set()
    permit = grant(
        plan_id="p",
        run_id="r",
        roots=[f"file://{root}/"],
        uris=[file.uri for file in files],
        validated_at=1000.0,
        check_lease=lambda: asked.add(threading.get_ident()),
    )
    found = delete(permit, Stores(), files, clock, concurrency=4)
    assert {outcome.outcome for outcome in found} == {"deleted"}
    assert [outcome.uri for outcome in found] == [file.uri for file in files]
    return len(asked - {threading.get_ident()})


def test_a_disk_that_answers_at_once_has_one_thread_and_a_slow_one_several(tmp_path: Path) -> None:
    quick = planted(tmp_path / "quick", directories=4, files=200)
    slow = planted(tmp_path / "slow", directories=4, files=200)
    assert workers_of(tmp_path / "quick", quick, Turned()) == 0
    assert 1 <= workers_of(tmp_path / "slow", slow, Later()) <= 4
