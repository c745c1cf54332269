"""How a table came to be as it is: from each version to the one before it, by the log that every version carries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.formats.iceberg.metadata.known import Version, read_version
from lakewarden.formats.iceberg.metadata.refs import refs_of
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.ports import Files

MOST_STEPS = 1000


@dataclass(frozen=True)
class Step:
    """One commit: the version that it replaced, and the one that it made."""

    before: Version
    after: Version

    @property
    def gone_snapshots(self) -> set[int]:
        return snapshot_ids(self.before.document) - snapshot_ids(self.after.document)

    @property
    def gone_refs(self) -> Mapping[str, Mapping[str, Any]]:
        """Branches and tags that were there before, as they were."""
        left = refs_of(self.after.document)
        return {name: ref for name, ref in refs_of(self.before.document).items() if name not in left}

    def took(self, snapshots: Collection[int], refs: Collection[str]) -> bool:
        """Whether this may be the commit that was to take these, and no other snapshot."""
        gone = self.gone_snapshots
        left = snapshot_ids(self.after.document)
        if not left.isdisjoint(snapshots) or not refs_of(self.after.document).keys().isdisjoint(refs):
            return False
        return gone <= set(snapshots) and bool(gone or (not snapshots and self.gone_refs.keys() & set(refs)))


def steps_back(files: Files, now: Version, known: Mapping[str, Version] | None = None) -> Iterator[Step]:
    """Every commit that led to this version, newest first. Raises UnreadableMetadataError where a version is lost."""
    after = now
    for _ in range(MOST_STEPS):
        place = replaced_by(after)
        if place is None:
            return
        before = (known or {}).get(place) or read_version(files, place)
        yield Step(before, after)
        after = before
    raise UnreadableMetadataError(
        f"{now.location} has more than {MOST_STEPS} versions before it; they were not all read"
    )


def made_since(files: Files, now: Version, seen: Version, ours: Callable[[Step], bool]) -> Step | None:
    """The newest commit since `seen` that is ours; None if there is none. Raises UnreadableMetadataError."""
    if not comes_after(now, seen) or now.location == seen.location:
        return None
    for step in steps_back(files, now, {seen.location: seen}):
        if ours(step):
            return step
        if step.before.location == seen.location or updated_ms(step.before) < updated_ms(seen):
            return None
    return None


def replaced_by(version: Version) -> str | None:
    """Where the version is that this one replaced; None for the first of a table."""
    log = version.document.get("metadata-log") or []
    return str(log[-1]["metadata-file"]) if log else None


def comes_after(version: Version, earlier: Version) -> bool:
    """Whether a version is this earlier one or was made from it: an old answer of a server shows one that was not."""
    if version.document.get("table-uuid") != earlier.document.get("table-uuid"):
        return False
    logged = {str(entry["metadata-file"]) for entry in version.document.get("metadata-log") or []}
    if version.location == earlier.location or earlier.location in logged:
        return True
    # A short log may have forgotten the earlier one.
    return updated_ms(version) > updated_ms(earlier)


def updated_ms(version: Version) -> int:
    return int(version.document["last-updated-ms"])


def snapshot_ids(document: Mapping[str, Any]) -> set[int]:
    return {int(s["snapshot-id"]) for s in document.get("snapshots") or []}
