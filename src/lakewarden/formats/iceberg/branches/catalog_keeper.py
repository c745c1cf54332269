"""Branches of a whole catalog (Nessie): each shows every table at a metadata file of its own.

What main and a branch both show is read once; so is a metadata file that many branches share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.formats.iceberg.branches.nessie_api import NessieApi, Reference
from lakewarden.formats.iceberg.branches.refs import Forks, MainHistory
from lakewarden.formats.iceberg.metadata.document import GARBLED, parse
from lakewarden.model.branches import BranchPlace, BranchSight, BranchState
from lakewarden.model.errors import BranchNotRestoredError, LakewardenError
from lakewarden.model.ports import Files
from lakewarden.model.table import TableState, identifier_of, parts_of

MARK = "@"
THREADS = 16
READ_AT_ONCE = 100
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
        found = [entry for entry in entries if entry["type"] != NAMESPACE]
        tables = {tuple(map(str, e["name"]["elements"])): e["content"] for e in found if e["type"] == TABLE}
        return Contents(tables, len(found) - len(tables))


class CatalogKeeper:
    """The branches of one Nessie server, as the catalog of this name sees it."""

    def __init__(self, name: str, api: NessieApi, files: Files) -> None:
        self._name = name
        self._api = api
        self._files = files

    def survey(self, states: Sequence[TableState]) -> list[BranchPlace]:
        found = {reference.name: reference for reference in self._api.references()}
        kept = self._kept()
        main = found[self._api.default_branch()]
        branches = [one for one in found.values() if one.kind == "BRANCH" and one.name not in kept]
        return self._places(main, branches)

    def look(self, identifier: str) -> BranchPlace | None:
        name = parts_of(identifier)[1].removeprefix(MARK)
        reference, main = self._api.reference(name), self._api.reference(self._api.default_branch())
        if reference is None or reference.kind != "BRANCH" or name in self._kept():
            return None
        assert main is not None  # a server always has its default branch
        return self._places(main, [reference])[0]

    def _kept(self) -> set[str]:
        """Never touched: the default branch, and the one that the configured catalog shows."""
        return {self._api.default_branch(), self._api.served_branch()}

    def _places(self, main: Reference, branches: Sequence[Reference]) -> list[BranchPlace]:
        commits = {reference.hash: reference for reference in (main, *branches)}
        with ThreadPoolExecutor(THREADS) as pool:
            read = pool.map(lambda reference: Contents.of(self._api.entries(reference)), commits.values())
            held = dict(zip(commits, read, strict=True))
        mine = held[main.hash].tables
        wanted = {
            str(shown["metadataLocation"])
            for contents in held.values()
            for key, content in contents.tables.items()
            if content != mine.get(key)
            for shown in (content, mine.get(key, content))
        }
        documents = self._documents(sorted(wanted))
        histories = {at: document.main for at, document in documents.items()}
        return [
            BranchPlace(
                identifier_of(self._name, (MARK + branch.name,)),
                "",
                branch.hash,
                tuple(
                    self._sight(branch, key, content, mine.get(key), documents, histories)
                    for key, content in held[branch.hash].tables.items()
                ),
                of_catalog=True,
                others=held[branch.hash].others,
            )
            for branch in branches
        ]

    def _documents(self, locations: Sequence[str]) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for first in range(0, len(locations), READ_AT_ONCE):
            some = locations[first : first + READ_AT_ONCE]
            found |= dict(zip(some, map(_document, some, self._files.get_many(some)), strict=True))
        return found

    def _sight(
        self,
        branch: Reference,
        key: Key,
        content: Json,
        mine: Json | None,
        documents: Mapping[str, Document],
        histories: Mapping[str, MainHistory | None],
    ) -> BranchSight:
        """A table in a branch, beside the same table in main."""
        at, number = str(content["metadataLocation"]), int(content.get("snapshotId") or -1)
        name, record = identifier_of(self._name, key), _record(branch.name, key, content)
        needs: tuple[str, ...] = (at,)
        witnesses: tuple[str, ...] = (str(mine["metadataLocation"]),) if mine is not None else ()

        def sight(standing: BranchState, why: str, *lists: str) -> BranchSight:
            return BranchSight(
                name, name, number, branch.committed_ms, standing, why, (*needs, *lists), record, witnesses
            )

        if content == mine:
            return sight(BranchState.HEALTHY, "it shows what main shows")
        document = documents[at]
        if document.why is not None:
            return sight(BranchState.UNKNOWN, document.why)
        main = histories[str(mine["metadataLocation"])] if mine is not None else None
        if main is not None:
            witnesses += main.lists
        if document.content is None:
            return sight(BranchState.DIVERGED, "its metadata file is not there")
        try:
            return sight(*_standing(branch, document.content, number, content, mine, main))
        except GARBLED as error:
            return sight(BranchState.UNKNOWN, f"{at} lacks or garbles a field ({error})")

    def still_read(self, place: BranchPlace, sight: BranchSight) -> str | None:
        """Nessie keeps a copy of metadata in its own store, and may serve a table whose metadata file is gone."""
        key, at = tuple(sight.record["key"]), str(sight.record["content"]["metadataLocation"])
        if self._files.head(at) is not None:
            return None  # it is the manifest list that is gone, without which nobody reads
        served = self._api.load(sight.branch, key)
        if served is None:
            return None
        document = served.get("metadata") or {}
        lists = {int(s["snapshot-id"]): str(s["manifest-list"]) for s in document.get("snapshots") or []}
        if sight.snapshot_id in lists and self._files.head(lists[sight.snapshot_id]) is None:
            return None
        return "its metadata file is gone, and Nessie still serves the table from its own store"

    def unchanged_since(self, place: BranchPlace, sight: BranchSight, instant: datetime) -> bool:
        return False  # a branch may be made anew at an old commit, and Nessie does not say when

    def remove(
        self, place: BranchPlace, names: Collection[str], now: datetime, properties: Mapping[str, str]
    ) -> Mapping[str, int]:
        """All of a branch by deleting it, at exactly the commit that was looked at; a part of it by a commit."""
        going = [sight for sight in place.sights if sight.name in names]
        branch = Reference(parts_of(place.identifier)[1].removeprefix(MARK), "BRANCH", place.metadata_location)
        if len(going) == len(place.sights) and not place.others:
            self._api.delete(branch)
            return {"refs": len(going), "branches": 1}
        operations = [{"type": "DELETE", "key": {"elements": list(sight.record["key"])}} for sight in going]
        self._api.commit(branch, operations, f"Remove {len(going)} stale tables", properties)
        return {"refs": len(going)}

    def restore(self, identifier: str, record: Mapping[str, Any], now: datetime) -> None:
        """The whole branch at its old commit if it is gone, else the table in it."""
        name, key, content = str(record["branch"]), tuple(record["key"]), dict(record["content"])
        branch = self._api.reference(name)
        if branch is None:
            return self._api.create(name, str(record["metadata_location"]))
        held = Contents.of(self._api.entries(branch)).tables.get(key)
        if held == content:
            return None
        if held is not None:
            raise BranchNotRestoredError(f"{identifier} shows another {'.'.join(key)} by now; it was left as it is")
        content.pop("id", None)  # Nessie gives a new one to whatever is put where nothing is
        operation = {"type": "PUT", "key": {"elements": list(key)}, "content": content}
        return self._api.commit(branch, [operation], f"Restore {'.'.join(key)}", {})


def _record(branch: str, key: Key, content: Json) -> dict[str, Any]:
    at = f"{content['metadataLocation']}#{content.get('snapshotId')}"
    return {"branch": branch, "at": at, "key": list(key), "content": dict(content)}


def _document(location: str, found: bytes | Exception) -> Document:
    if isinstance(found, FileNotFoundError):
        return Document()
    if isinstance(found, Exception):
        return Document(why=f"{location} cannot be read ({getattr(found, 'message', None) or found})")
    try:
        return Document(parse(found, location))
    except LakewardenError as error:
        return Document(why=error.message)


def _standing(
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
