"""What an executor is asked before any work, and what it tells: its Python, its Lakewarden, what it sees and reaches."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lakewarden.model.uri import FileUri
from lakewarden.storage.scratch import drop_temporary, temporary_name
from lakewarden.storage.stores import Stores

# Modules of tasks, for what they import in turn: the stores, Arrow, the decoder.
MODULES = ("lakewarden.pipeline.compare.compare", "lakewarden.pipeline.read.manifests", "datafusion")
# A look at more directories tells nothing more of which disks are shared.
MOST_DIRECTORIES = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """`written` are places into which executors and the driver both write: the state, a plan. `read` are directories and
    buckets of tables."""

    written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    @contextmanager
    def prepared(self, stores: Stores) -> Iterator[Question]:
        """The question as it travels. Meanwhile a file of ours lies on each local disk that must be shared."""
        made = [path for place in self.written if (path := _written(place)) is not None]
        local = [place for place in self.read if _path(place) is not None]
        step = max(1, len(local) // MOST_DIRECTORIES)
        there = [path for place in local[::step] if os.path.isdir(path := str(_path(place)))]
        buckets = {FileUri.parse(place).store: place for place in (*self.written, *self.read) if _path(place) is None}
        try:
            yield Question(own_version(), tuple(made), tuple(there), tuple(buckets.values()), pickle.dumps(stores))
        finally:
            for path in made:
                drop_temporary(path)


@dataclass(frozen=True, slots=True)
class Question:
    """Of this version are we; these files and directories are on our disk; these places are asked over the network."""

    version: str
    files: tuple[str, ...]
    directories: tuple[str, ...]
    places: tuple[str, ...]
    stores: bytes


@dataclass(frozen=True, slots=True)
class Told:
    """`lacking`: what could not be imported, with its error. `unseen`: files and directories that are not there."""

    host: str
    python: str
    version: str | None = None
    lacking: str | None = None
    unseen: Sequence[str] = ()
    unreachable: Sequence[tuple[str, str]] = ()


def own_version() -> str:
    """The version of this process, found as executors find theirs."""
    return str(import_module("lakewarden").__version__)


def probe(question: Question) -> Callable[[Any], Iterator[dict[str, Any]]]:
    """What a task does: one answer, with the fields of Told.

    It travels whole and imports nothing of ours before it has looked: Lakewarden may be what is missing.
    """
    version, files, directories = question.version, question.files, question.directories
    places, packed, modules = question.places, question.stores, MODULES

    def look(_: Any) -> Iterator[dict[str, Any]]:
        import importlib
        import os
        import pickle
        import socket
        import sys

        told: dict[str, Any] = {"host": socket.gethostname(), "python": sys.executable}
        try:
            told["version"] = importlib.import_module("lakewarden").__version__
            if told["version"] == version:
                for name in modules:
                    importlib.import_module(name)
        except Exception as error:
            told["lacking"] = f"{type(error).__name__}: {error}"
        told["unseen"] = [path for path in (*files, *directories) if not os.path.exists(path)]
        told["unreachable"] = []
        if told.get("version") == version and "lacking" not in told:
            stores = pickle.loads(packed)
            for place in places:
                try:
                    stores.head(f"{place.rstrip('/')}/lakewarden-preflight")
                except Exception as error:
                    told["unreachable"].append((place, f"{type(error).__name__}: {error}"))
        yield told

    return look


def _path(place: str) -> str | None:
    """Where a place lies on local disk."""
    found = FileUri.parse(place)
    return f"/{found.key}" if found.scheme == "file" else None


def _written(place: str) -> str | None:
    """A file of ours in this directory, or in the nearest one above that is there: the plan's own is made later."""
    directory = _path(place)
    if directory is None:
        return None
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory.rstrip("/"))
    path = os.path.join(directory, temporary_name())
    with open(path, "xb"):
        pass
    return path
