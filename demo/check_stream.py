"""Reads the Paimon table by pypaimon, without Lakewarden: every row of every ref, and every file that a ref names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo.check import Fingerprint, fingerprint
from demo.stream import IDENTIFIER, DemoStream


def fingerprints(stream: DemoStream, without_days: tuple[str, ...] = ()) -> dict[str, Fingerprint]:
    """The rows of each snapshot of each branch, and of each tag; those of main's latest without some days."""
    found = {}
    for branch in _branches(stream):
        snapshots = stream.open(branch).snapshot_manager().list_snapshots()
        for snapshot in snapshots:
            rows = _rows(stream, branch, {"scan.snapshot-id": str(snapshot.id)})
            found[f"{branch}@{snapshot.id}"] = _printed(f"{branch}@{snapshot.id}", rows)
        rows = _rows(stream, branch, {})
        if branch == "main":
            rows = [row for row in rows if row["day"] not in without_days]
        found[branch] = _printed(branch, rows)
        for tag in stream.open(branch).list_tags():
            name = tag if branch == "main" else f"{branch}/{tag}"
            found[name] = _printed(name, _rows(stream, branch, {"scan.tag-name": tag}))
    return found


def needed_files(stream: DemoStream) -> set[Path]:
    """Whatever a snapshot or tag of any branch needs in order to be read."""
    return {path for branch in _branches(stream) for path in _named_by(stream, branch)}


def _named_by(stream: DemoStream, branch: str) -> Iterator[Path]:
    from pypaimon.manifest.manifest_file_manager import ManifestFileManager
    from pypaimon.manifest.manifest_list_manager import ManifestListManager

    table, manifests = stream.open(branch), stream.location / "manifest"
    tags = [table.tag_manager().get_or_throw(name).trim_to_snapshot() for name in table.list_tags()]
    for snapshot in [*table.snapshot_manager().list_snapshots(), *tags]:
        yield from (manifests / name for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list))
        live: Counter[Path] = Counter()
        for manifest in ManifestListManager(table).read_all(snapshot):
            yield manifests / manifest.file_name
            for entry in ManifestFileManager(table).read(manifest.file_name):
                place = stream.location / f"day={entry.partition.values[0]}" / f"bucket-{entry.bucket}"
                live[place / entry.file.file_name] += 1 if entry.kind == 0 else -1
        yield from (path for path, times in live.items() if times > 0)


def _branches(stream: DemoStream) -> list[str]:
    return ["main", *stream.open().branch_manager().branches()]


def _rows(stream: DemoStream, branch: str, options: dict[str, str]) -> list[dict[str, Any]]:
    builder = stream.open(branch, options).new_read_builder()
    rows: list[dict[str, Any]] = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    return rows


def _printed(ref: str, rows: list[dict[str, Any]]) -> Fingerprint:
    return fingerprint(IDENTIFIER, ref, rows)
