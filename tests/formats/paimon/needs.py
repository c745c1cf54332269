"""What the refs of a Paimon table need, read from its metadata by the tests themselves: the third opinion beside ours and Java's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.formats.paimon.reading import Ref, branches_of, refs_of
from tests.formats.paimon.shapes import ADD, Document, commit_of, entries_of, index_entries_of, live_names, manifests_of


def needed_names(location: Path, refs: list[Ref] | None = None) -> set[str]:
    """The bare names of all files that these refs (by default: all snapshots and tags of all branches) need to be read."""
    return {name for ref in (refs_of(location) if refs is None else refs) for name in _names(location, ref)}


def branch_refs(location: Path) -> list[Ref]:
    """The refs of all branches but main."""
    return [ref for ref in refs_of(location) if ref.branch != "main"]


def content_names(location: Path) -> set[str]:
    """The bare names of the files below a table that hold data or describe it: all but refs, schemas and hints."""
    return {path.name for path in location.rglob("*") if path.is_file() and _is_content(path.relative_to(location))}


def _is_content(path: Path) -> bool:
    return path.parts[0] not in ("schema", "snapshot", "tag", "branch", "consumer", "changelog")


def _names(location: Path, ref: Ref) -> Iterator[str]:
    commit = commit_of(location, ref)
    yield from (commit[key] for key in _named_directly(commit, ref))
    yield from manifests_of(location, ref)
    shown = live_names(location, ref)
    for entry in entries_of(location, ref, ("base", "delta")):
        if entry["_KIND"] == ADD and entry["_FILE"]["_FILE_NAME"] in shown:
            yield entry["_FILE"]["_FILE_NAME"]
            yield from entry["_FILE"]["_EXTRA_FILES"]
    yield from (entry["_FILE_NAME"] for entry in index_entries_of(location, ref))
    if "changelogManifestList" in _named_directly(commit, ref):
        if not (location / "manifest" / commit["changelogManifestList"]).exists():
            return  # the copy of a tag, whose changelog went with the snapshot it was made from
        yield from manifests_of(location, ref, ("changelog",))
        yield from (entry["_FILE"]["_FILE_NAME"] for entry in entries_of(location, ref, ("changelog",)))


def _named_directly(commit: Document, ref: Ref) -> list[str]:
    """What a commit itself names. A tag is for reading rows: it keeps no changelog."""
    keys = ["baseManifestList", "deltaManifestList", "indexManifest", "statistics"]
    keys += ["changelogManifestList"] if ref.tag is None else []
    return [key for key in keys if commit.get(key)]


__all__ = ["branch_refs", "branches_of", "content_names", "needed_names"]
