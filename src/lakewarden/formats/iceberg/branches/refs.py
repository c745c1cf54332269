"""The branches that one metadata document names, and how each stands to main. Pure.

One pass over the snapshots of a document, however many branches it has: of every snapshot it is found out once where its
ancestors meet main's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.formats.iceberg.metadata.refs import BRANCH, MAIN, ancestors, refs_of
from lakewarden.model.branches import BranchSight, BranchState

Document = Mapping[str, Any]


@dataclass(frozen=True)
class MainHistory:
    """The snapshots of main that have not expired, newest first, and the manifest list of the newest."""

    ids: tuple[int, ...]
    lists: tuple[str, ...]

    @staticmethod
    def of(document: Document) -> MainHistory:
        found = list(ancestors(document))
        ids = tuple(int(snapshot["snapshot-id"]) for snapshot in found)
        return MainHistory(ids, tuple(str(snapshot["manifest-list"]) for snapshot in found[:1]))

    @property
    def head(self) -> int | None:
        return self.ids[0] if self.ids else None


class Forks:
    """Where the snapshots of a document left main's history."""

    def __init__(self, document: Document, main: MainHistory) -> None:
        self._main = main
        self.snapshots = {int(s["snapshot-id"]): s for s in document.get("snapshots") or []}
        # Each snapshot's newest ancestor (itself included) that main has; None if main has none of them.
        self._bases: dict[int, int | None] = {number: number for number in main.ids}

    def base(self, number: int) -> int | None:
        """The newest ancestor of a snapshot that main has."""
        path: list[int] = []
        found: int | None = number
        while found is not None and found not in self._bases and found in self.snapshots:
            path.append(found)
            self._bases[found] = None  # so that a circle of parents ends
            parent = self.snapshots[found].get("parent-snapshot-id")
            found = int(parent) if parent is not None else None
        base = self._bases.get(found) if found is not None else None
        self._bases.update(dict.fromkeys(path, base))
        return base

    def standing(self, number: int) -> tuple[BranchState, str]:
        """How a branch at this snapshot stands to main, and in words."""
        if self._main.head is None:
            return BranchState.DIVERGED, "main has no snapshot that it could be compared with"
        base = self.base(number)
        if base is None:
            return BranchState.DETACHED, "none of its snapshots is in main's history any more"
        if base == number:
            return BranchState.HEALTHY, "its newest snapshot is in main's history"
        if base == self._main.head:
            return BranchState.HEALTHY, "it is ahead of main"
        return BranchState.DIVERGED, f"it left main at snapshot {base}, and both have commits since"


def branches_of(table: str, document: Document) -> Iterator[BranchSight]:
    """Every branch of a document but main; never a tag."""
    main = MainHistory.of(document)
    forks = Forks(document, main)
    for name, ref in refs_of(document).items():
        if name == MAIN or ref.get("type") != BRANCH:
            continue
        number = int(ref["snapshot-id"])
        snapshot = forks.snapshots.get(number)
        record = {"branch": name, "at": str(number), "ref": dict(ref)}
        if snapshot is None:
            why = f"its snapshot {number} is not in the metadata"
            yield BranchSight(name, table, number, 0, BranchState.UNKNOWN, why, (), record)
            continue
        standing, why = forks.standing(number)
        needs = (str(snapshot["manifest-list"]),)
        committed = int(snapshot["timestamp-ms"])
        yield BranchSight(name, table, number, committed, standing, why, needs, record, main.lists)
