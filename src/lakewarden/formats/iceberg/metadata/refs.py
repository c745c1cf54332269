"""The branches and tags that a metadata document names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MAIN, BRANCH = "main", "branch"


def refs_of(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Branches and tags; tables of version 1 may have a current snapshot and no refs."""
    refs: dict[str, Mapping[str, Any]] = dict(document.get("refs") or {})
    current = document.get("current-snapshot-id")
    if current not in (None, -1):
        refs.setdefault(MAIN, {"snapshot-id": current, "type": BRANCH})
    return refs


def head_of(document: Mapping[str, Any], branch: str = MAIN) -> Mapping[str, Any] | None:
    """The newest snapshot of a branch; None if there is no such branch, or no snapshot in it."""
    ref = refs_of(document).get(branch)
    if ref is None or ref.get("type", BRANCH) != BRANCH:
        return None
    number = ref["snapshot-id"] if branch != MAIN else document.get("current-snapshot-id")
    return next((s for s in document.get("snapshots") or [] if s["snapshot-id"] == number), None)


def ancestors(document: Mapping[str, Any], branch: str = MAIN) -> Iterator[Mapping[str, Any]]:
    """The snapshots of a branch, newest first, as far as they have not expired."""
    snapshots = {int(s["snapshot-id"]): s for s in document.get("snapshots") or []}
    found = head_of(document, branch)
    # Taken out of the dictionary, so that a circle of parents ends.
    while found is not None and snapshots.pop(int(found["snapshot-id"]), None) is not None:
        yield found
        parent = found.get("parent-snapshot-id")
        found = snapshots.get(int(parent)) if parent is not None else None
