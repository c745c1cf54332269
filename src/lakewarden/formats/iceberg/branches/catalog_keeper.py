"""Branches of a whole catalog (Nessie): each shows every table at a metadata file of its own.

What main and a branch both show is read once; so is a metadata file that many branches share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import takewhile
from typing import Any

from lakewarden.formats.iceberg.branches.contents import Contents, Document, Json, Key, document_of, standing_of
from lakewarden.formats.iceberg.branches.looked_at import changed
from lakewarden.formats.iceberg.branches.nessie_api import NessieApi, NoReferenceError, Reference
from lakewarden.formats.iceberg.branches.refs import MainHistory
from lakewarden.formats.iceberg.metadata.document import GARBLED
from lakewarden.model.branches import BranchPlace, BranchSight, BranchState
from lakewarden.model.errors import (
    BranchNotRestoredError,
    CatalogUnavailableError,
    LakewardenError,
    PlanOutdatedError,
    TableMovedError,
)
from lakewarden.model.ports import Files
from lakewarden.model.table import TableState, identifier_of, parts_of

MARK = "@"
THREADS = 16
READ_AT_ONCE = 100


class CatalogKeeper:
    """The branches of one Nessie server, as the catalog of this name sees it."""

    def __init__(self, name: str, api: NessieApi, files: Files) -> None:
        self._name = name
        self._api = api
        self._files = files

    def survey(self, states: Sequence[TableState]) -> list[BranchPlace]:
        found = {reference.name: reference for reference in self._api.references()}
        kept, default = self._kept(), self._api.default_branch()
        if default not in found:
            raise CatalogUnavailableError(
                f"Nessie behind catalog {self._name} lists its branches without {default}; nothing was changed"
            )
        main = self._contents(found[default])
        branches = [one for one in found.values() if one.kind == "BRANCH" and one.name not in kept]
        held: dict[str, Contents] = {}
        refused: list[BranchPlace] = []
        for branch, contents in self._held(branches):
            if isinstance(contents, Contents):
                held[branch.name] = contents
            elif not isinstance(contents, NoReferenceError) or self._api.reference(branch.name) is not None:
                refused.append(
                    BranchPlace(self._place(branch), "", branch.hash, of_catalog=True, refusal=contents.refusal())
                )
        return [*self._places(main, [(one, held[one.name]) for one in branches if one.name in held]), *refused]

    def _held(self, branches: Sequence[Reference]) -> Iterator[tuple[Reference, Contents | LakewardenError]]:
        """What each branch holds, or why that cannot be told. What several have at one commit is read once."""

        def read(branch: Reference) -> Contents | LakewardenError:
            try:
                return self._contents(branch)
            except LakewardenError as error:
                return error

        found: dict[str, Contents | LakewardenError] = {}
        left = list(branches)
        with ThreadPoolExecutor(THREADS) as pool:
            while left:
                # The first of each commit. Where that one is gone, the next is asked.
                asked = {branch.hash: branch for branch in reversed(left)}
                found |= dict(zip(asked, pool.map(read, asked.values()), strict=True))
                for branch in left:
                    if branch is asked[branch.hash] or isinstance(found[branch.hash], Contents):
                        yield branch, found[branch.hash]
                left = [one for one in left if one is not asked[one.hash] and not isinstance(found[one.hash], Contents)]

    def _contents(self, at: Reference) -> Contents:
        """What a branch holds. Raises CatalogUnavailableError, of which NoReferenceError is one."""
        try:
            return Contents.of(self._api.entries(at))
        except GARBLED as error:
            raise CatalogUnavailableError(
                f"what branch {at.name} of catalog {self._name} holds cannot be read ({error}); nothing was changed"
            ) from error

    def _place(self, branch: Reference) -> str:
        return identifier_of(self._name, (MARK + branch.name,))

    def look(self, identifier: str) -> BranchPlace | None:
        name = parts_of(identifier)[1].removeprefix(MARK)
        reference, main = self._api.reference(name), self._api.reference(self._api.default_branch())
        if reference is None or reference.kind != "BRANCH":
            return None
        if name in self._kept():
            raise PlanOutdatedError(f"{identifier} is the default branch or the one that is shown by now; it was kept")
        assert main is not None  # a server always has its default branch
        try:
            held = self._contents(reference)
        except NoReferenceError as error:
            raise TableMovedError(f"{identifier} was changed meanwhile; nothing of it was removed") from error
        return self._places(self._contents(main), [(reference, held)])[0]

    def shows(self) -> str | None:
        return self._api.served_branch()

    def _kept(self) -> set[str]:
        """Never touched: the default branch, and the one that the configured catalog shows."""
        return {self._api.default_branch(), self._api.served_branch()}

    def _places(self, main: Contents, branches: Sequence[tuple[Reference, Contents]]) -> list[BranchPlace]:
        mine = main.tables
        wanted = {
            str(shown["metadataLocation"])
            for _, contents in branches
            for key, content in contents.tables.items()
            if content != mine.get(key)
            for shown in (content, mine.get(key, content))
        }
        documents = self._documents(sorted(wanted))
        histories = {at: document.main for at, document in documents.items()}
        return [
            BranchPlace(
                self._place(branch),
                "",
                branch.hash,
                tuple(
                    self._sight(branch, key, content, mine.get(key), documents, histories)
                    for key, content in contents.tables.items()
                ),
                of_catalog=True,
                others=contents.others,
            )
            for branch, contents in branches
        ]

    def _documents(self, locations: Sequence[str]) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for first in range(0, len(locations), READ_AT_ONCE):
            some = locations[first : first + READ_AT_ONCE]
            found |= dict(zip(some, map(document_of, some, self._files.get_many(some)), strict=True))
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
            return sight(*standing_of(branch, document.content, number, content, mine, main))
        except GARBLED as error:
            return sight(BranchState.UNKNOWN, f"{at} lacks or garbles a field ({error})")

    def still_read(self, place: BranchPlace, sight: BranchSight) -> str | None:
        """Nessie keeps a copy of metadata in its own store, and may serve a table whose metadata file is gone."""
        key, at = tuple(sight.record["key"]), str(sight.record["content"]["metadataLocation"])
        if self._files.head(at) is not None:
            return None  # it is the manifest list that is gone, without which nobody reads
        served = self._api.load(sight.branch, key)
        if served is None:
            # A server that does not serve main's table either may not serve any, whatever its reason is.
            blind = sight.witnesses and self._api.load(self._api.default_branch(), key) is None
            return (
                "its metadata file is gone, and Nessie serves no table of that name from main either" if blind else None
            )
        document = served.get("metadata") or {}
        lists = {int(s["snapshot-id"]): str(s["manifest-list"]) for s in document.get("snapshots") or []}
        if sight.snapshot_id in lists and self._files.head(lists[sight.snapshot_id]) is None:
            return None
        return "its metadata file is gone, and Nessie still serves the table from its own store"

    def unchanged_since(self, place: BranchPlace, sight: BranchSight, instant: datetime) -> bool | None:
        return None  # a branch may be made anew at an old commit, and Nessie does not say when

    def remove(
        self, place: BranchPlace, names: Collection[str], now: datetime, properties: Mapping[str, str]
    ) -> Mapping[str, int]:
        """All of a branch by deleting it, at exactly the commit that was looked at; a part of it by a commit."""
        going = [sight for sight in place.sights if sight.name in names]
        branch = Reference(parts_of(place.identifier)[1].removeprefix(MARK), "BRANCH", place.metadata_location)
        if place.emptied_by(names):
            changed(place.identifier, lambda: self._api.delete(branch), lambda: self._deleted(branch))
            return {"refs": len(going), "branches": 1}
        operations = [{"type": "DELETE", "key": {"elements": list(sight.record["key"])}} for sight in going]
        message = f"Remove {len(going)} stale tables"
        changed(
            place.identifier,
            lambda: self._api.commit(branch, operations, message, properties),
            lambda: self._taken_out(branch, going, properties),
        )
        return {"refs": len(going)}

    def _deleted(self, branch: Reference) -> bool:
        """Whether a branch that was to be deleted is gone. Raises TableMovedError if it is another one by now."""
        now = self._api.reference(branch.name)
        if now is not None and now.hash != branch.hash:
            raise TableMovedError(f"branch {branch.name} of {self._name} was changed meanwhile; it was not removed")
        return now is None

    def _taken_out(self, branch: Reference, going: Sequence[BranchSight], properties: Mapping[str, str]) -> bool:
        """Whether our commit is in the branch's log. Raises TableMovedError if its tables are not what they were."""
        now = self._api.reference(branch.name)
        if now is None:
            raise TableMovedError(f"branch {branch.name} of {self._name} was removed meanwhile")
        held = self._contents(now).tables
        there = {sight.name: held.get(tuple(sight.record["key"])) for sight in going}
        since = takewhile(lambda commit: commit.get("hash") != branch.hash, self._api.commits(now, branch.hash))
        ours = any(_says(commit, properties) for commit in since)
        if ours and not any(there.values()):
            return True
        if not ours and all(there[sight.name] == sight.record["content"] for sight in going):
            return False
        raise TableMovedError(
            f"branch {branch.name} of {self._name} was changed meanwhile; what is there now was not removed"
        )

    def restore(self, identifier: str, record: Mapping[str, Any], now: datetime) -> None:
        """The whole branch at its old commit if it is gone, else the table in it."""
        if self._is_back(identifier, record):
            return
        name, key = str(record["branch"]), tuple(record["key"])
        branch = self._api.reference(name)

        def make() -> None:
            if branch is None:
                return self._api.create(name, str(record["metadata_location"]))
            # Nessie gives a new id to whatever is put where nothing is.
            operation = {"type": "PUT", "key": {"elements": list(key)}, "content": _without_id(record["content"])}
            return self._api.commit(branch, [operation], f"Restore {'.'.join(key)}", {})

        changed(identifier, make, lambda: self._is_back(identifier, record))

    def _is_back(self, identifier: str, record: Mapping[str, Any]) -> bool:
        """Whether a table is in its branch as it was. Raises BranchNotRestoredError if what is there is somebody else's."""
        key, commit = tuple(record["key"]), str(record["metadata_location"])
        branch = self._api.reference(str(record["branch"]))
        if branch is None or branch.hash == commit:
            return branch is not None
        again = BranchNotRestoredError(
            f"{identifier} was made again since, or set to another commit; it was left as it is"
        )
        if not any(one.get("hash") == commit for one in self._api.commits(branch, commit)):
            raise again
        held = self._contents(branch).tables.get(key)
        if held is not None and _without_id(held) != _without_id(record["content"]):
            raise BranchNotRestoredError(f"{identifier} shows another {'.'.join(key)} by now; it was left as it is")
        if held is None and record["whole"]:
            raise again
        return held is not None


def _record(branch: str, key: Key, content: Json) -> dict[str, Any]:
    at = f"{content['metadataLocation']}#{content.get('snapshotId')}"
    return {"branch": branch, "at": at, "key": list(key), "content": dict(content)}


def _without_id(content: Json) -> Json:
    return {name: value for name, value in content.items() if name != "id"}


def _says(commit: Json, properties: Mapping[str, str]) -> bool:
    """Whether a commit carries these properties: the run's own id is one of them."""
    told = commit.get("allProperties") or {}
    return all(told.get(name) == [value] for name, value in properties.items())
