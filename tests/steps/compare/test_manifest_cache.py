"""What the cache of proven manifests keeps, and what it lets go: by use, and within bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakewarden.ledger.database import open_ledger
from lakewarden.model.kept_file import KeptFile
from lakewarden.steps.compare import manifest_cache
from lakewarden.steps.compare.manifest_cache import cache_files, remember
from lakewarden.storage.stores import Stores
from tests.support.ledger import SteppedClock

FILES = 4


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(manifest_cache, "MOST_FILES", FILES)
    ledger = open_ledger(f"sqlite:///{tmp_path}/state.db", SteppedClock())
    clock = SimpleNamespace(now=lambda: datetime.now(UTC))
    return SimpleNamespace(ledger=ledger, stores=Stores(), state=f"file://{tmp_path}/state/", clock=clock)


def left(deployment: Any, name: str, size: int = 10) -> KeptFile:
    """A file that a plan left in the cache."""
    uri = f"{deployment.state}cache/entries-{name}.parquet"
    deployment.stores.put(uri, b"x" * size)
    return KeptFile("entries", uri, "", 1, size)


def names(deployment: Any) -> list[str]:
    found = [file.uri.rpartition("-")[2].removesuffix(".parquet") for file in cache_files(deployment).known]
    for file in cache_files(deployment).known:
        assert deployment.stores.head(file.uri).size == file.bytes
    return found


def test_what_every_plan_uses_stays_however_many_come_after_it(deployment: Any) -> None:
    first = left(deployment, "first")
    remember(deployment, [first])
    for plan in range(3 * FILES):
        remember(deployment, [left(deployment, f"{plan}")], used={first.uri})
    assert names(deployment) == ["11", "first", "10", "9"]
    gone = deployment.stores.head(f"{deployment.state}cache/entries-0.parquet")
    assert gone.size == 0, "what goes is emptied"


def test_what_nobody_uses_any_more_goes(deployment: Any) -> None:
    remember(deployment, [left(deployment, "first")])
    for plan in range(FILES):
        remember(deployment, [left(deployment, f"{plan}")])
    assert names(deployment) == ["3", "2", "1", "0"]


def test_bytes_are_bounded_and_the_last_used_ones_stay(deployment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_cache, "MOST_BYTES", 25)
    remember(deployment, [left(deployment, "a")])
    remember(deployment, [left(deployment, "b")])
    remember(deployment, [left(deployment, "c")], used=[f"{deployment.state}cache/entries-a.parquet"])
    assert names(deployment) == ["c", "a"]


def test_a_plan_that_only_uses_writes_nothing_and_lets_nothing_go(deployment: Any) -> None:
    kept = [left(deployment, name) for name in "abcd"]
    for file in kept:
        remember(deployment, [file])
    remember(deployment, [], used=[kept[0].uri])
    assert names(deployment) == ["a", "d", "c", "b"]


def test_of_files_that_one_plan_used_the_smallest_goes(deployment: Any) -> None:
    sizes = {"a": 10, "b": 40, "c": 20, "d": 30}
    kept = [left(deployment, name, size) for name, size in sizes.items()]
    remember(deployment, kept)
    remember(deployment, [left(deployment, "new", 1)], used=[file.uri for file in kept])
    assert names(deployment) == ["new", "b", "d", "c"]


@pytest.mark.parametrize(("hours", "size"), [(23, 10), (25, 0)])
def test_what_a_task_left_that_was_tried_again_is_emptied_after_a_day(deployment: Any, hours: int, size: int) -> None:
    known, stray = left(deployment, "known"), left(deployment, "stray")
    remember(deployment, [known])
    deployment.clock.now = lambda: datetime.now(UTC) + timedelta(hours=hours)
    remember(deployment, [left(deployment, "new")])
    assert names(deployment) == ["new", "known"], "what is known stays as it is, however old"
    assert deployment.stores.head(stray.uri).size == size
