"""The branches and tags that a metadata document names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAIN, BRANCH = "main", "branch"


def refs_of(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Branches and tags; tables of version 1 may have a current snapshot and no refs."""
    refs: dict[str, Mapping[str, Any]] = dict(document.get("refs") or {})
    current = document.get("current-snapshot-id")
    if current not in (None, -1):
        refs.setdefault(MAIN, {"snapshot-id": current, "type": BRANCH})
    return refs
