"""Which metadata files a Paimon table has: the directories of every branch, and which names in them count.

Nothing is opened here. Hints (EARLIEST, LATEST) are listed apart, because they are only hints: nothing is decided by
them, and a table does not change when one does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lakewarden.formats.paimon.metadata.table import MAIN
from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Files, Stat

# A number as the format writes it. `snapshot-007` or `snapshot-abc` is nobody's snapshot: never read, never a candidate.
_NUMBER = "(0|[1-9][0-9]{0,17})"
METADATA_NAMES = {
    "schema": re.compile(f"schema-{_NUMBER}"),
    "snapshot": re.compile(f"snapshot-{_NUMBER}"),
    "changelog": re.compile(f"changelog-{_NUMBER}"),
    "tag": re.compile("tag-(.+)"),
    "consumer": re.compile("consumer-(.+)"),
}
NUMBERED = ("schema", "snapshot", "changelog")
HINTS = frozenset({"EARLIEST", "LATEST"})
BRANCH_PREFIX = "branch-"
# Also lists (`manifest-list-…`) and index manifests, by the uuid in each.
COMMITTED = re.compile("(index-)?manifest-(list-)?[0-9a-f]{8}-[0-9a-f]{4}-")


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """One file: `key` is its number or name without the prefix, `version` changes when its bytes do."""

    uri: str
    key: str
    version: str


@dataclass(frozen=True, slots=True)
class BranchFiles:
    """One branch's metadata files, by directory. Two listings of a branch are equal whatever the hints are."""

    name: str
    directory: str
    schema: tuple[MetadataFile, ...]
    snapshot: tuple[MetadataFile, ...]
    changelog: tuple[MetadataFile, ...]
    tag: tuple[MetadataFile, ...]
    consumer: tuple[MetadataFile, ...]
    hints: tuple[MetadataFile, ...] = field(compare=False)

    def __iter__(self) -> Iterator[MetadataFile]:
        for group in (self.schema, self.snapshot, self.changelog, self.tag, self.consumer):
            yield from group


def list_metadata(location: str, files: Files) -> tuple[BranchFiles, ...]:
    """The metadata files of every branch, main first. Raises StoreUnavailableError.

    A directory that is not there has no files, as the format has it; one that cannot be listed raises.
    """
    names = files.entries(f"{location}branch/").directories
    branches = [(name.removeprefix(BRANCH_PREFIX), f"{location}branch/{name}/") for name in names if _is_branch(name)]
    return tuple(_branch(name, directory, files) for name, directory in [(MAIN, location), *branches])


def signs_of_commits(location: str, files: Files) -> str | None:
    """The address of a manifest list or manifest, which only a commit writes; None if there is none.

    Raises StoreUnavailableError.
    """
    names = (file.key for file in files.entries(f"{location}manifest/").files)
    return next((f"{location}manifest/{name}" for name in names if COMMITTED.match(name)), None)


def fingerprint(branches: Iterable[BranchFiles]) -> str:
    """A digest of the listing that changes when a branch or one of its metadata files comes, goes or is replaced."""
    digest = hashlib.sha256()
    for branch in branches:
        for line in (branch.directory, *(f"{file.uri}\n{file.version}" for file in branch)):
            digest.update(f"{line}\n".encode())
    return digest.hexdigest()[:32]


def _is_branch(name: str) -> bool:
    return name.startswith(BRANCH_PREFIX) and len(name) > len(BRANCH_PREFIX)


def _branch(name: str, directory: str, files: Files) -> BranchFiles:
    found: dict[str, tuple[MetadataFile, ...]] = {}
    hints: list[MetadataFile] = []
    for kind, pattern in METADATA_NAMES.items():
        found_there = files.entries(f"{directory}{kind}/")
        numbered = found_there.directories if kind in NUMBERED else ()
        if odd := next((one for one in numbered if pattern.fullmatch(one)), None):
            raise StoreUnavailableError(f"{directory}{kind}/{odd} is a directory, where a file of the table belongs")
        entries = found_there.files
        matched = [(match[1], file) for file in entries if (match := pattern.fullmatch(file.key))]
        found[kind] = tuple(MetadataFile(f"{directory}{kind}/{file.key}", key, _version(file)) for key, file in matched)
        hints += [
            MetadataFile(f"{directory}{kind}/{file.key}", file.key, "")
            for file in entries
            if kind == "snapshot" and file.key in HINTS
        ]
    return BranchFiles(name, directory, **found, hints=tuple(hints))


def _version(file: Stat) -> str:
    return f"{file.size} {file.etag or file.modified}"
