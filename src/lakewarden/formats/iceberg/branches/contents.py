"""What a branch of a Nessie catalog holds, and how a table in it stands to main's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.formats.iceberg.branches.nessie_api import Reference
from lakewarden.formats.iceberg.branches.refs import Forks, MainHistory
from lakewarden.formats.iceberg.metadata.document import GARBLED, parse
from lakewarden.model.branches import BranchState
from lakewarden.model.errors import LakewardenError

TABLE, NAMESPACE = "ICEBERG_TABLE", "NAMESPACE"

Key = tuple[str, ...]
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Document:
    """One metadata file: what it holds, that it is gone, or why it cannot be told."""

    content: Json | None = None
    why: str | None = None

    @property
    def main(self) -> MainHistory | None:
        """What it shows as main's history; None if that cannot be told."""
        try:
            return MainHistory.of(self.content) if self.content is not None else None
        except GARBLED:
            return None


@dataclass(frozen=True)
class Contents:
    """What a branch holds at one commit: its tables, and how many other things that are no namespace."""

    tables: Mapping[Key, Json]
    others: int

    @staticmethod
    def of(entries: Iterable[Json]) -> Contents:
        """Raises any of GARBLED."""
        found = [entry for entry in entries if entry["type"] != NAMESPACE]
        tables = {tuple(map(str, e["name"]["elements"])): e["content"] for e in found if e["type"] == TABLE}
        if not all(content["metadataLocation"] for content in tables.values()):
            raise ValueError("a table without a metadata file")
        return Contents(tables, len(found) - len(tables))


def document_of(location: str, found: bytes | Exception) -> Document:
    if isinstance(found, FileNotFoundError):
        return Document()
    if isinstance(found, Exception):
        return Document(why=f"{location} cannot be read ({getattr(found, 'message', None) or found})")
    try:
        return Document(parse(found, location))
    except LakewardenError as error:
        return Document(why=error.message)


def standing_of(
    branch: Reference, document: Json, number: int, content: Json, mine: Json | None, main: MainHistory | None
) -> tuple[Any, ...]:
    """How a table in a branch stands to main's, in words, and the manifest list that it begins with.

    Metadata that Nessie writes names the newest snapshot alone: what came before is in the commits of the catalog. So a
    table is detached only where neither of the two leads back to main.
    """
    snapshots = {int(s["snapshot-id"]): s for s in document.get("snapshots") or []}
    if number in (-1, 0):
        return BranchState.HEALTHY, "it has no snapshot yet"
    if number not in snapshots:
        return BranchState.UNKNOWN, f"its snapshot {number} is not in its metadata"
    begins = str(snapshots[number]["manifest-list"])
    if mine is None:
        return BranchState.DIVERGED, "main has no table of that name", begins
    if main is None:
        return BranchState.UNKNOWN, "main's own metadata file cannot be read"
    standing, why = Forks(document, main).standing(number)
    if standing is not BranchState.DETACHED:
        return standing, why, begins
    if content.get("id") != mine.get("id"):
        return standing, "main has another table of that name by now", begins
    if branch.ancestor is None:
        return standing, "the branch has no commit in common with main", begins
    if branch.ancestor == branch.hash:
        return BranchState.HEALTHY, "its newest commit is in main's history", begins
    return BranchState.DIVERGED, f"the branch left main at commit {branch.ancestor[:12]}", begins
