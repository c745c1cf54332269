"""What a Paimon table's metadata says, read as plain documents: for tests that look at the shape of a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro

from tests.formats.paimon.reading import Ref, branch_path

Document = dict[str, Any]

ADD, DELETE = 0, 1


def commit_of(location: Path, ref: Ref) -> Document:
    """The JSON of a snapshot or tag."""
    kind, name = ("tag", ref.tag) if ref.tag is not None else ("snapshot", ref.snapshot)
    document: Document = json.loads((branch_path(location, ref.branch) / kind / f"{kind}-{name}").read_text())
    return document


def manifests_of(location: Path, ref: Ref, lists: tuple[str, ...] = ("base", "delta")) -> list[str]:
    """The names of the manifests in those of its manifest lists: base, delta, changelog."""
    commit = commit_of(location, ref)
    names = [commit[f"{one}ManifestList"] for one in lists if commit.get(f"{one}ManifestList")]
    return [row["_FILE_NAME"] for name in names for row in records(location / "manifest" / name)]


def entries_of(location: Path, ref: Ref, lists: tuple[str, ...] = ("delta",)) -> list[Document]:
    """The manifest entries in those manifest lists, in their order."""
    return [row for name in manifests_of(location, ref, lists) for row in records(location / "manifest" / name)]


def names_of(entries: list[Document], kind: int) -> list[str]:
    """The names of the files that those entries add, or delete."""
    return [entry["_FILE"]["_FILE_NAME"] for entry in entries if entry["_KIND"] == kind]


def live_names(location: Path, ref: Ref) -> set[str]:
    """The data files a snapshot or tag consists of: added once more often than deleted."""
    entries = entries_of(location, ref, ("base", "delta"))
    added, deleted = names_of(entries, ADD), names_of(entries, DELETE)
    return {name for name in added if added.count(name) > deleted.count(name)}


def index_entries_of(location: Path, ref: Ref) -> list[Document]:
    """The entries of its index manifest."""
    name = commit_of(location, ref).get("indexManifest")
    return list(records(location / "manifest" / name)) if name else []


def records(path: Path) -> Iterator[Document]:
    with path.open("rb") as file:
        yield from (row for row in fastavro.reader(file) if isinstance(row, dict))
