"""What makes a Python worker's next task cheap: 0.2 s of every task go to archives read again and garbage looked for.

The daemon of ours does it once for all workers that it forks. Where Spark's own daemon runs, as on a cluster, each
worker does it in its first task.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from zipimport import ZipImportError, zipimporter

import pyarrow as pa

Batches = Iterable[pa.RecordBatch]


class Archive(zipimporter):
    """Modules in an archive, whose table of contents is read once.

    Spark has Python forget before every task what it knows of the places on its path, its own archive and the jars of
    the session among them. Reading them all again takes 0.3 s of every task, and an archive in use does not change.
    A jar holds no Python of ours: it is never looked into.
    """

    def __init__(self, path: str) -> None:
        if path.endswith(".jar"):
            raise ZipImportError(f"no modules in {path}", path=path)
        super().__init__(path)

    def invalidate_caches(self) -> None:
        """Nothing to forget."""


def read_archives_once() -> None:
    """For this process, and for the workers that it forks."""
    sys.path_hooks[:] = [Archive if hook is zipimporter else hook for hook in sys.path_hooks]
    for path in [path for path, finder in sys.path_importer_cache.items() if type(finder) is zipimporter]:
        del sys.path_importer_cache[path]


@dataclass
class _Process:
    settled: bool = False


_this = _Process()


def settle() -> None:
    """Take what is imported by now out of the collector's sight, once in a process and those that it forks.

    After every task a worker has Python collect its garbage, and without this the collector looks through all modules:
    0.05 s a task, while the next one waits.
    """
    if not _this.settled:
        _this.settled = True
        read_archives_once()
        gc.collect()
        gc.freeze()


class _Seldom:
    """How many want Python to look for garbage seldom, and how often it looked before."""

    def __init__(self) -> None:
        self.turn, self.wanted, self.before = threading.Lock(), 0, gc.get_threshold()


_seldom = _Seldom()
# Objects that are made before Python looks whether any are in a cycle.
_SELDOM = 50_000


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Have Python look for garbage in cycles less often: a quarter of the time that it takes to read and write manifests goes
    into that, and their records, which are many and in no cycle, are freed without."""
    with _seldom.turn:
        _seldom.wanted += 1
        if _seldom.wanted == 1:
            _seldom.before = gc.get_threshold()
            gc.set_threshold(max(_SELDOM, _seldom.before[0]) if _seldom.before[0] else 0, *_seldom.before[1:])
    try:
        yield
    finally:
        with _seldom.turn:
            _seldom.wanted -= 1
            if not _seldom.wanted:
                gc.set_threshold(*_seldom.before)


def settling(step: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """The step of a task, in a worker that is settled. Never in the driver, whose process is somebody's own."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        settle()
        yield from step(batches)

    return run
