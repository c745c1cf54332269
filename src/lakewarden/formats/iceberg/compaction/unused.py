"""Whether a table names files by now that no commit of ours named: asked before such files are let go."""

from __future__ import annotations

from collections.abc import Collection

from lakewarden.formats.iceberg.commit.steps import snapshot_ids
from lakewarden.formats.iceberg.manifests.files import read_list, read_manifest
from lakewarden.formats.iceberg.metadata.known import Version
from lakewarden.model.ports import Files


def named_since(files: Files, now: Version, seen: Version, paths: Collection[str]) -> set[str]:
    """Those of the paths that a snapshot names which came after `seen`, on whatever branch. What was there before cannot
    name them: they were written since. Raises what reading manifests raises.
    """
    wanted, old = set(paths), snapshot_ids(seen.document)
    read: set[str] = set()
    found: set[str] = set()
    for snapshot in now.document.get("snapshots") or ():
        if int(snapshot["snapshot-id"]) in old:
            continue
        for row in read_list(files, snapshot).records:
            # A manifest of an earlier snapshot was written before the files were.
            if int(row["added_snapshot_id"]) in old or row["manifest_path"] in read:
                continue
            read.add(row["manifest_path"])
            found |= wanted.intersection(entry["data_file"]["file_path"] for entry in read_manifest(files, row).records)
    return found
