"""Versions of a table behind a REST catalog: the server makes the next one, from whatever is current when it does.

A request can assert the refs that we know of. It cannot assert that there are no others, and a server drops a ref whose
snapshot goes without a word. So each commit is looked at afterwards: what was made in between and lost is put back. An
answer is not believed by itself: a commit that was refused, or that nobody answered for, is looked for in the table's
log, because a proxy may have sent it twice, and a server may make it long after our patience ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_exponential

from lakewarden.formats.iceberg.commit.rest_updates import (
    branch_unmoved,
    newest,
    properties_set,
    ref_absent,
    ref_restored,
    refs_unmoved,
    removals,
)
from lakewarden.formats.iceberg.commit.steps import Step, comes_after, made_since, snapshot_ids, steps_back
from lakewarden.formats.iceberg.commit.versions import MayGo, MovedOnError
from lakewarden.formats.iceberg.metadata.document import GARBLED
from lakewarden.formats.iceberg.metadata.known import Version, read_version
from lakewarden.formats.iceberg.metadata.refs import MAIN, refs_of
from lakewarden.model.errors import (
    CatalogUnavailableError,
    DoubtfulCommitError,
    LakewardenError,
    LostRefError,
    PlanOutdatedError,
    UnreadableMetadataError,
)
from lakewarden.model.ports import Files
from lakewarden.model.table import parts_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

FIRST_LOOK, LONGEST_LOOK, LOOK_FOR = 0.5, 10.0, 60.0  # seconds, after a commit that nobody vouches for

Find = Callable[[Version], Step | None]
Ref = Mapping[str, Any]


class _LostError(Exception):
    """A ref went with our commit and is not back."""


class _UnseenError(Exception):
    """Our commit was made, and what went with it cannot be seen."""


class _AgainError(Exception):
    """Not yet: worth another try."""


class RestVersions:
    """Tables of a REST catalog."""

    def __init__(self, catalog: Catalog, files: Files) -> None:
        self._catalog = catalog
        self._files = files

    def current(self, table: str) -> Version:
        return read_version(self._files, self._load(table).metadata_location)

    def expire(
        self, table: str, version: Version, snapshots: Collection[int], refs: Collection[str], now: datetime
    ) -> Version:
        known = refs_of(version.document)
        try:
            step = self._remove(table, version, snapshots, refs)
            gone = step.gone_refs.items()
            lost = {name: (ref, step) for name, ref in gone if name not in refs or ref != known.get(name)}
            return self._put_back(table, lost, step.after)
        except (_LostError, _UnseenError) as error:
            raise LostRefError(str(error), {"snapshots": len(snapshots), "refs": len(refs)}) from error

    def settle(
        self, table: str, version: Version, announced: Collection[int], refs: Collection[str], may_go: MayGo
    ) -> Version:
        gone = set(announced) - snapshot_ids(version.document)
        gone_refs = set(refs) - refs_of(version.document).keys()
        if not gone and not gone_refs:
            return version
        try:
            return self._put_back(table, self._lost_since(version, set(announced), set(refs), may_go), version)
        except _LostError as error:
            why = str(error)
        except LakewardenError as error:
            why = _unseen(table, error.message)
        except GARBLED as error:
            why = _unseen(table, f"a version of it lacks or garbles a field: {error}")
        raise LostRefError(why, {"snapshots": len(gone), "refs": len(gone_refs)})

    def add(self, table: str, version: Version, snapshot: Mapping[str, Any], branch: str = MAIN) -> Version:
        number = int(snapshot["snapshot-id"])
        unmoved, changes = branch_unmoved(version.document, branch), list(newest(version.document, snapshot, branch))
        try:
            made = self._commit(table, unmoved, changes)
            found = read_version(self._files, made)
        except (MovedOnError, CatalogUnavailableError):
            # Its number is its own: if the table has it, the commit was made, whatever was answered.
            found = self.current(table)
            if number not in snapshot_ids(found.document):
                raise
        if number not in snapshot_ids(found.document):
            raise self._misanswered(table)
        return found

    def set_properties(self, table: str, version: Version, properties: Mapping[str, str]) -> Version:
        return read_version(self._files, self._commit(table, *properties_set(version.document, properties)))

    def add_ref(self, table: str, version: Version, name: str, ref: Mapping[str, Any], now: datetime) -> Version:
        asked = list(ref_restored(name, ref, version.document, version.document))
        made = read_version(self._files, self._commit(table, [ref_absent(name)], asked))
        if refs_of(made.document).get(name, {}).get("snapshot-id") != ref["snapshot-id"]:
            raise self._misanswered(table)
        return made

    def store_properties(self, table: str) -> Mapping[str, str]:
        return {**self._catalog.properties, **{k: str(v) for k, v in self._load(table).io.properties.items()}}

    def _remove(self, table: str, seen: Version, snapshots: Collection[int], refs: Collection[str]) -> Step:
        """Our commit as the table's log has it, whatever was answered. Raises as `_commit` does, and _UnseenError."""

        def find(now: Version) -> Step | None:
            try:
                return made_since(self._files, now, seen, lambda step: step.took(snapshots, refs))
            except GARBLED as error:
                raise UnreadableMetadataError(f"a version of {table} lacks or garbles a field ({error})") from error

        try:
            made = self._commit(table, refs_unmoved(seen.document), list(removals(seen.document, snapshots, refs)))
        except DoubtfulCommitError as doubt:
            # The commit was lost, or only the answer to it. If it was made, a ref may have gone with it.
            return self._wait_for(table, find, doubt)
        except (MovedOnError, CatalogUnavailableError) as no:
            # A proxy may have sent it twice: then the second was refused, because the first was taken.
            if (found := self._look_for(table, find, no)) is None:
                raise
            return found
        try:
            found = find(read_version(self._files, made))
        except LakewardenError as error:
            raise _UnseenError(_unseen(table, error.message)) from error
        # Else it is the answer to another request.
        return found or self._wait_for(table, find, self._misanswered(table))

    def _look_for(self, table: str, find: Find, no: Exception) -> Step | None:
        """The commit that was refused, if it was made all the same. Raises DoubtfulCommitError if nobody can tell."""
        looks = _retrying(retry_if_exception_type(LakewardenError))
        try:
            return looks(lambda: find(self.current(table)))
        except RetryError as error:
            raise DoubtfulCommitError(
                f"catalog {self._catalog.name} refused the commit on {table} ({no}), and {table} could not be looked at "
                f"for {LOOK_FOR:.0f} seconds ({error.last_attempt.exception()}); it may or may not have been made, and no "
                "file was touched"
            ) from error

    def _wait_for(self, table: str, find: Find, doubt: DoubtfulCommitError) -> Step:
        """The commit that nobody vouches for, as soon as it is there. Raises the doubt if it never is."""
        looks = _retrying(retry_if_result(lambda found: found is None) | retry_if_exception_type(LakewardenError))
        try:
            found = looks(lambda: find(self.current(table)))
        except RetryError:
            found = None
        if found is None:
            raise DoubtfulCommitError(
                f"{doubt.message}; {table} was looked at for {LOOK_FOR:.0f} seconds without a trace of it"
            ) from doubt
        return found

    def _lost_since(
        self, version: Version, announced: set[int], refs: set[str], may_go: MayGo
    ) -> dict[str, tuple[Ref, Step]]:
        """Refs that went with an earlier commit of ours and are not there now. Raises UnreadableMetadataError."""
        left = refs_of(version.document)
        missing, missing_refs = announced - snapshot_ids(version.document), refs - left.keys()
        lost: dict[str, tuple[Ref, Step]] = {}
        for step in steps_back(self._files, version):
            gone, gone_refs = step.gone_snapshots, step.gone_refs
            # A commit that took other snapshots too was an engine's own.
            if gone <= announced and (gone or not refs.isdisjoint(gone_refs)):
                meant = may_go(step.before)
                for name, ref in gone_refs.items():
                    if name not in left and name not in meant:
                        lost.setdefault(name, (ref, step))
            missing -= gone
            missing_refs -= gone_refs.keys()
            if not missing and not missing_refs:
                return lost
        raise UnreadableMetadataError("the log does not tell in which version they went")

    def _put_back(self, table: str, lost: Mapping[str, tuple[Ref, Step]], after: Version) -> Version:
        """The table with these refs again, and the snapshots they need. Raises _LostError."""
        for name, (ref, step) in lost.items():
            tries = _retrying(retry_if_exception_type(_AgainError))
            try:
                after = tries(self._restore, table, name, ref, step.before.document, after)
            except RetryError as error:
                raise _LostError(_lost(table, name, ref, error.last_attempt.exception())) from error
        return after

    def _restore(self, table: str, name: str, ref: Ref, before: Mapping[str, Any], since: Version) -> Version:
        try:
            now = self.current(table)
            if not comes_after(now, since):
                raise _AgainError(f"{now.location} is not what the table is now")
            if name in refs_of(now.document):
                return now  # by us, or by its maker, who has seen it vanish
            asked = list(ref_restored(name, ref, before, now.document))
            made = read_version(self._files, self._commit(table, [ref_absent(name)], asked))
        except (MovedOnError, LakewardenError) as error:
            # A writer may have taken the sequence number that we chose, which servers call a bad request.
            raise _AgainError(error.message if isinstance(error, LakewardenError) else str(error)) from error
        if not comes_after(made, now) or name not in refs_of(made.document):
            raise _AgainError("the answer was to another request")
        return made

    def _commit(self, table: str, requirements: list[TableRequirement], updates: list[TableUpdate]) -> str:
        """Where the version is that the server says it made. Raises MovedOnError; CatalogUnavailableError if it said no,
        and DoubtfulCommitError if it may have been made or may still be."""
        from pyiceberg import exceptions as said

        no = (said.BadRequestError, said.UnauthorizedError, said.ForbiddenError, said.NoSuchTableError)
        loaded = self._load(table)
        try:
            answer = self._catalog.commit_table(loaded, tuple(requirements), tuple(updates))
        except said.CommitFailedException as error:
            raise MovedOnError(str(error)) from error
        except no as error:
            raise CatalogUnavailableError(
                f"catalog {self._catalog.name} did not take the commit on {table} ({type(error).__name__}: {error}); "
                "nothing was changed"
            ) from error
        except Exception as error:
            raise DoubtfulCommitError(
                f"catalog {self._catalog.name} did not take the commit on {table} ({type(error).__name__}: {error}); "
                "it may or may not have been made, and no file was touched"
            ) from error
        return str(answer.metadata_location)

    def _misanswered(self, table: str) -> DoubtfulCommitError:
        return DoubtfulCommitError(
            f"catalog {self._catalog.name} answered the commit on {table} with a version that does not have it; it may or "
            "may not have been made, and no file was touched"
        )

    def _load(self, table: str) -> Table:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(parts_of(table))
        except NoSuchTableError as error:
            raise PlanOutdatedError(f"{self._catalog.name}.{table} is gone; nothing of it was changed") from error
        except Exception as error:
            raise CatalogUnavailableError(
                f"catalog {self._catalog.name} could not be read ({type(error).__name__}: {error}); nothing was changed"
            ) from error


def _retrying(again: Any) -> Retrying:
    return Retrying(retry=again, stop=stop_after_delay(LOOK_FOR), wait=wait_exponential(FIRST_LOOK, LONGEST_LOOK))


def _lost(table: str, name: str, ref: Ref, why: object) -> str:
    return (
        f"{ref['type']} {name} of {table}, made while its snapshots expired, was lost with snapshot {ref['snapshot-id']} "
        f"and could not be put back ({why})"
    )


def _unseen(table: str, why: str) -> str:
    return (
        f"snapshots of {table} expired, and what else changed just then cannot be read ({why}), so a branch or tag made "
        "in that moment may be lost"
    )
