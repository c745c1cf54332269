"""A register changes only from the state its writer saw, on every store."""

from __future__ import annotations

import multiprocessing
import os
import uuid
from pathlib import Path

import pytest

from lakewarden.storage.cas import KEPT_RECORDS, Ambiguous, Conflict, CreateOnly, open_register, registers
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.stores import Stores
from tests.support.storage import Place


def test_read_and_swap(place: Place) -> None:
    register = open_register(place.stores, place.uri("a.register"))
    assert register.read() is None
    first = register.write(b"1", None)
    with pytest.raises(Conflict):
        register.write(b"other", None)
    second = register.write(b"2", first)
    with pytest.raises(Conflict):
        register.write(b"late", first)
    assert register.read() == (b"2", second)
    assert registers(place.stores, place.root) == [place.uri("a.register")]


def test_a_swap_of_nothing_is_a_conflict(place: Place) -> None:
    register = open_register(place.stores, place.uri("a.register"))
    token = open_register(place.stores, place.uri("b.register")).write(b"x", None)
    with pytest.raises(Conflict):
        register.write(b"y", token)


def enter(stores: Stores, uri: str, names: list[str]) -> None:
    """Add each name to the document. A write that cannot be known is looked up there, as the contract says."""
    register = open_register(stores, uri)
    for name in names:
        while True:
            found = register.read()
            entered = found[0].decode().split() if found else []
            if name in entered:
                break
            try:
                register.write(" ".join([*entered, name]).encode(), found[1] if found else None)
                break
            except Conflict:
                # It says that nothing was written. Names are looked up above only after a doubt, so this shows a lie.
                after = register.read()
                assert after is None or name not in after[0].decode().split(), f"{name} was written after all"
            except Ambiguous:
                continue


@pytest.mark.parametrize("processes", [8])
def test_no_update_is_lost(place: Place, processes: int) -> None:
    if place.kind == "memory":
        pytest.skip("memory lives in one process")
    uri, times = place.uri("n.register"), 12
    context = multiprocessing.get_context("spawn")
    names = [[f"{worker}-{n}" for n in range(times)] for worker in range(processes)]
    workers = [context.Process(target=enter, args=(place.stores, uri, mine)) for mine in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * processes
    found = open_register(place.stores, uri).read()
    assert found is not None
    assert sorted(found[0].decode().split()) == sorted(name for mine in names for name in mine)


def test_a_writer_that_stalls_after_its_record_is_in_doubt(tmp_path: Path) -> None:
    """Others went on from its record and trimmed it: a conflict would say that it was never written."""
    key = str(tmp_path / "a.register")[1:]

    class Stalling(CreateOnly):
        looks = 0

        def _state(self) -> tuple[int, int, list[str]]:
            self.looks += 1
            if self.looks == 2:
                others = CreateOnly(LocalDisk(), key)
                for _ in range(3 * KEPT_RECORDS):
                    found = others.read()
                    assert found is not None
                    others.write(found[0] + b"+", found[1])
            return super()._state()

    with pytest.raises(Ambiguous):
        Stalling(LocalDisk(), key).write(b"mine", None)
    found = CreateOnly(LocalDisk(), key).read()
    assert found is not None
    assert found[0] == b"mine" + b"+" * 3 * KEPT_RECORDS


def test_old_records_are_trimmed_and_stay_closed(tmp_path: Path) -> None:
    """A writer that stalled before record 2 must not create it again after it was trimmed."""
    directory = tmp_path / "a.register"
    register = CreateOnly(LocalDisk(), str(directory)[1:])
    token = None
    for i in range(60):
        token = register.write(b"%d" % i, token)
    names = os.listdir(directory)
    assert len(names) <= 3 * KEPT_RECORDS + 3
    assert f"{2:020d}" not in names

    class Stalled(CreateOnly):
        looks = 0

        def _state(self) -> tuple[int, int, list[str]]:
            self.looks += 1
            return (1, 0, []) if self.looks == 1 else super()._state()

    with pytest.raises(Ambiguous):
        Stalled(LocalDisk(), str(directory)[1:]).write(b"zombie", "1")
    assert register.read() == (b"59", token)


def test_only_a_register_can_be_opened() -> None:
    with pytest.raises(ValueError, match=r"\.register"):
        open_register(Stores(), f"memory://m{uuid.uuid4().hex}/data.parquet")
