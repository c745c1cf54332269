"""Courses of events that a Paimon table can have behind it: named, generated, each with the rows it must show.

`build` makes one anywhere; `Library` makes each once and hands out copies. The rows are always the same; the
names of files, which are uuids, and the times are not.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

# Importing these registers the histories in them.
from tests.formats.paimon import histories_of_appends, histories_of_keys, histories_of_refs  # noqa: F401
from tests.formats.paimon.register import BUILDERS, WITH_JAVA
from tests.formats.paimon.story import History, move

__all__ = ["NAMES", "WITH_JAVA", "History", "Library", "age", "backdate", "build", "copy_of", "plant"]

NAMES = tuple(BUILDERS)

OLD = 48.0
"""The age, in hours, of what `plant` leaves: older than every default grace of Java."""


def build(name: str, warehouse: Path) -> History:
    """That history as the table `lake.<name>` in a warehouse, which may hold others."""
    return BUILDERS[name](warehouse)


class Library:
    """Builds each history once, in a warehouse of its own; tests get copies they may change.

    Test processes that run side by side share one home: who needs a history first builds it, and the others wait.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._built: dict[str, History] = {}

    def original(self, name: str) -> History:
        """For reading only."""
        if name not in self._built:
            record = self._home / f"{name}.pickle"
            with (self._home / f"{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not record.exists():
                    record.write_bytes(pickle.dumps(build(name, self._home / name)))
            self._built[name] = pickle.loads(record.read_bytes())
        return self._built[name]

    def copy_of(self, name: str, warehouse: Path) -> History:
        return copy_of(self.original(name), warehouse)


def copy_of(history: History, warehouse: Path) -> History:
    """The same history in another warehouse; built anew where the table names files outside by their whole path."""
    return build(history.name, warehouse) if history.external else move(history, warehouse)


def age(history: History, hours: float = OLD) -> None:
    """Make every file and directory of the table that much older than now, so that only reachability protects it."""
    then = time.time() - hours * 3600
    # Writers choose among several directories by chance, so that one of them may not be there.
    for root in filter(Path.exists, (history.location, *history.external)):
        for path in (root, *root.rglob("*")):
            os.utime(path, (then, then))


def backdate(history: History, hours: float) -> None:
    """Let every commit, of all branches, tags and changelogs, have happened that much earlier than it did."""
    for path in _commits(history.location):
        document = json.loads(path.read_text())
        document["timeMillis"] -= int(hours * 3_600_000)
        path.write_text(json.dumps(document))


def _commits(location: Path) -> Iterator[Path]:
    for home in (location, *location.glob("branch/branch-*")):
        for kind in ("snapshot", "tag", "changelog"):
            yield from home.glob(f"{kind}/{kind}-*")


def plant(history: History, hours: float = OLD) -> set[Path]:
    """Files of every kind the format writes, old and named by nothing, in every place it writes to.

    Manifests only where there was a commit: a table that has them and no snapshot has lost its snapshots.
    """
    committed = any(history.location.glob("snapshot/snapshot-*"))
    names = IN_TABLE if committed else [name for name in IN_TABLE if not name.startswith(COMMITTED)]
    planted = {history.location / name.format(uuid.uuid4(), uuid.uuid4()) for name in names}
    for home in history.location.glob("branch/branch-*"):
        planted.add(home / "snapshot" / f".snapshot-9.{uuid.uuid4()}.tmp")
    for bucket in sorted(_buckets(history)):
        planted |= {bucket / name.format(uuid.uuid4(), uuid.uuid4()) for name in IN_BUCKET}
        if "=" in bucket.parent.name:
            key = bucket.parent.name.partition("=")[0]
            planted.add(bucket.parent.with_name(f"{key}=0") / "bucket-0" / f"data-{uuid.uuid4()}-0.parquet")
    then = time.time() - hours * 3600
    for path in planted:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0" * 64)
        os.utime(path, (then, then))
    return planted


IN_TABLE = (
    "manifest/manifest-{}-0",
    "manifest/manifest-list-{}-0",
    "manifest/index-manifest-{}-0",
    "manifest/.manifest-{}-0.{}.tmp",
    "index/index-{}-0",
    "statistics/stat-{}-0",
    "snapshot/.snapshot-9.{}.tmp",
)
COMMITTED = ("manifest/manifest-", "manifest/index-manifest-")
IN_BUCKET = (
    "data-{}-0.parquet",
    "data-{}-0.parquet.index",
    "changelog-{}-0.parquet",
    "index-{}-0",
    ".data-{}-0.parquet.{}.tmp",
)


def _buckets(history: History) -> set[Path]:
    roots = (history.location, *history.external)
    return {path for root in roots for path in root.rglob("bucket-*") if path.is_dir()}
