"""Which Paimon tables are left alone, and the options that say where a table's files may lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakewarden.formats.paimon.metadata.table import Branch, PaimonTable, Snapshot
from lakewarden.model.errors import UnreadableMetadataError, UnsupportedTableError
from lakewarden.model.uri import FileUri

NEWEST_SNAPSHOT_VERSION = 3
TABLE_TYPES = frozenset({"table", "materialized-table"})
# Directories that the format itself uses; data among them could not be told from metadata.
OWN_DIRECTORIES = frozenset(
    ["snapshot", "changelog", "tag", "consumer", "schema", "branch", "manifest", "index", "statistics", "service"]
)


def external_paths(options: Mapping[str, str]) -> list[str]:
    """Directories outside the table's own that it writes data and index files to. Those that are no address are left out."""
    return [path for path in _external_options(options) if _is_address(path)]


def data_directory(options: Mapping[str, str]) -> str:
    """The directory below the table's (and below each external one) that holds the partitions; empty if there is none."""
    value = options.get("data-file.path-directory", "").strip().rstrip("/")
    return value if value and not _odd_directory(value) else ""


def check_readable(table: PaimonTable) -> None:
    """Raise for metadata that names files in a way that cannot be followed."""
    for branch in table.branches:
        for snapshot in _all(branch):
            names = (snapshot.base, snapshot.delta, snapshot.changelog, snapshot.index_manifest, snapshot.statistics)
            for name in names:
                if name is not None and (name in ("", ".", "..") or "/" in name):
                    raise UnreadableMetadataError(
                        f"snapshot {snapshot.id} in {branch.directory} names a file {name!r}, which is no bare name"
                    )


def check_supported(identifier: str, table: PaimonTable) -> None:
    """Raise where what the metadata names is known, yet files could be missed or misjudged."""
    for branch in table.branches:
        _check_options(f"{identifier} (branch {branch.name})", branch.schema.options)
        _check_snapshots(branch, table.written if branch is table.main else None)
        for snapshot in _all(branch):
            version = snapshot.version
            if version is not None and (not isinstance(version, int) or version > NEWEST_SNAPSHOT_VERSION):
                raise UnsupportedTableError(
                    f"snapshot {snapshot.id} of {identifier} (branch {branch.name}) has version {version}, newer than "
                    f"{NEWEST_SNAPSHOT_VERSION}; nothing was touched"
                )


def _check_snapshots(branch: Branch, written: str | None) -> None:
    """The format never removes the last snapshot: without it, all files of the branch would look like orphans."""
    if branch.snapshots and (hint := branch.latest_hint or 0) > (newest := branch.snapshots[-1].id):
        # A commit writes its snapshot before the hint, and a rollback the hint before it removes a snapshot.
        raise UnreadableMetadataError(
            f"{branch.directory}snapshot/LATEST names snapshot {hint}, and the newest that is there is {newest}; nothing "
            "was touched",
            hint=f"Bring snapshot {hint} back. If the table was rolled back by hand, correct LATEST.",
        )
    sign = None if branch.snapshots else next(_signs_of_snapshots(branch, written), None)
    if sign is not None:
        raise UnreadableMetadataError(
            f"{branch.directory}snapshot/ has no snapshot file at all, although {sign}; nothing was touched"
        )


def _signs_of_snapshots(branch: Branch, written: str | None) -> Iterator[str]:
    """What says that a branch had snapshots. Hints lie beside the snapshots, and may have gone with them."""
    if hint := branch.latest_hint or branch.earliest_hint:
        yield f"a hint names snapshot {hint}"
    yield from (f"tag {tag.name} is there" for tag in branch.tags)
    yield from (f"changelog {changelog.id} is there" for changelog in branch.changelogs)
    # A reader that waits for the first commit wants snapshot 1.
    yield from (f"consumer {name} wants snapshot {number}" for name, number in branch.consumers.items() if number > 1)
    if written is not None:
        yield f"{written} is there, which only a commit writes"


def _check_options(name: str, options: Mapping[str, str]) -> None:
    if (manifests := options.get("manifest.format", "avro").strip().lower()) != "avro":
        raise UnsupportedTableError(
            f"{name} has manifest.format={manifests}, and only avro is read; nothing was touched"
        )
    if options.get("chain-table.enabled", "false").strip().lower() != "false":
        raise UnsupportedTableError(f"{name} is a chain table, whose branches read each other; nothing was touched")
    kind = options.get("type", "table").strip().lower().replace("_", "-")
    if kind not in TABLE_TYPES:
        raise UnsupportedTableError(
            f"{name} has type={kind}, whose files the snapshots do not name; nothing was touched"
        )
    directory = options.get("data-file.path-directory", "").strip()
    if directory and _odd_directory(directory.rstrip("/")):
        raise UnsupportedTableError(
            f"{name} has data-file.path-directory={directory!r}, which is no plain directory below the table's"
        )
    for path in _external_options(options):
        if not _is_address(path):
            raise UnsupportedTableError(f"{name} writes to {path!r}, which is no address; nothing was touched")


def _external_options(options: Mapping[str, str]) -> Iterator[str]:
    for option in ("data-file.external-paths", "global-index.external-path"):
        yield from (path.strip() for path in options.get(option, "").split(",") if path.strip())


def _odd_directory(value: str) -> bool:
    parts = value.split("/")
    plain = all(part and part not in (".", "..") and part.isprintable() for part in parts)
    return not plain or ":" in value or "\\" in value or "=" in value or parts[0] in OWN_DIRECTORIES


def _is_address(path: str) -> bool:
    try:
        key = FileUri.parse(path).key
    except ValueError:
        return False
    return not {".", ".."}.intersection(key.split("/"))


def _all(branch: Branch) -> Iterator[Snapshot]:
    yield from branch.snapshots
    yield from (tag.snapshot for tag in branch.tags)
    yield from branch.changelogs
