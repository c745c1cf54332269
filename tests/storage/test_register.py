"""A register changes only from the state its writer saw, on every store."""

from __future__ import annotations

import multiprocessing
import os
import uuid
from pathlib import Path

import pytest

from lakewarden.storage.cas import KEPT_RECORDS, Conflict, CreateOnly, open_register, registers
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.stores import Stores
from tests.fixtures_storage import Place


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


def count(stores: Stores, uri: str, times: int) -> None:
    register = open_register(stores, uri)
    done = 0
    while done < times:
        found = register.read()
        try:
            register.write(b"%d" % (int(found[0] if found else 0) + 1), found[1] if found else None)
            done += 1
        except Conflict:
            continue


@pytest.mark.parametrize("processes", [8])
def test_no_update_is_lost(place: Place, processes: int) -> None:
    if place.kind == "memory":
        pytest.skip("memory lives in one process")
    uri, times = place.uri("n.register"), 12
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=count, args=(place.stores, uri, times)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * processes
    found = open_register(place.stores, uri).read()
    assert found is not None
    assert int(found[0]) == processes * times


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

    with pytest.raises(Conflict):
        Stalled(LocalDisk(), str(directory)[1:]).write(b"zombie", "1")
    assert register.read() == (b"59", token)


def test_only_a_register_can_be_opened() -> None:
    with pytest.raises(ValueError, match=r"\.register"):
        open_register(Stores(), f"memory://m{uuid.uuid4().hex}/data.parquet")
