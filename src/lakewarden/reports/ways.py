"""How tables need a file: named by metadata, by a snapshot's list of manifests, by a manifest, or by an entry of one. No Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.errors import IncompleteManifestError, LakewardenError
from lakewarden.model.roots import match_key
from lakewarden.model.table import ManifestList, TableState
from lakewarden.model.uri import canonical
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.manifests import ReadTask, read_lists, read_manifests
from lakewarden.pipeline.read.notes import NOTE
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which a table needs a file: through which list, and through which manifest; neither where metadata names it."""

    state: TableState
    list: ManifestList | None = None
    manifest: str | None = None

    @property
    def facts(self) -> Facts:
        return {
            "table": self.state.identifier,
            "refs": _refs_over(self.state, self.list) if self.list else [],
            "snapshot_id": self.list.snapshot_id if self.list else None,
            "manifest": self.manifest,
            "by": "manifest" if self.manifest else "manifest list" if self.list else "metadata",
        }


def ways_to(deployment: Deployment, fleet: Fleet, key: str) -> tuple[list[Way], dict[str, str]]:
    """Every way in which a table needs the file, and the tables that cannot tell.

    The tables in whose directories it lies are asked first, the others only if those do not need it.
    """
    owners = {claim.identifier for claim in fleet.claims if key.startswith(claim.prefix)}
    found: list[Way] = []
    unread: dict[str, str] = {}
    for state in sorted(fleet.states, key=lambda state: state.identifier not in owners):
        if found and state.identifier not in owners:
            break
        try:
            found += ways_of(deployment, state, key, fleet.homes.get(state.identifier))
        except LakewardenError as error:
            unread[state.identifier] = str(error)
    return found, unread


def ways_of(deployment: Deployment, state: TableState, key: str, home: str | None) -> Iterator[Way]:
    """How one table needs the file: named by its metadata, a list of a snapshot, a manifest, or an entry of one."""
    if state.refusal is not None and not state.is_visible:
        raise LakewardenError(state.refusal.message, code=state.refusal.code)
    lists = [item for item in state.manifest_lists if not item.soft]
    if any(canonical(file.uri) == key for file in state.files) or canonical(state.metadata_location) == key:
        of = [item for item in lists if canonical(item.uri) == key]
        yield from (Way(state, item) for item in of)
        if not of:
            yield Way(state)
        return
    read = ReadTask(deployment.stores, deployment.readers)
    # The number that a list carries comes back with each of its manifests, so here it says which snapshot that was.
    homes = {state.identifier: home} if home else {}
    wanted = ToRead.of(((i, replace(state, manifest_lists=(item,))) for i, item in enumerate(lists)), homes)
    manifests = _whole(read_lists(read)(iter(wanted.lists.to_batches())), c.MANIFESTS, "path")
    manifests = pa.concat_tables([manifests, wanted.manifests])
    snapshots: dict[str, list[int]] = {}
    for row in manifests.select([c.TABLE, "path"]).to_pylist():
        snapshots.setdefault(row["path"], []).append(row[c.TABLE])
    if key in snapshots:
        yield from (Way(state, lists[i], key) for i in snapshots[key])
        return
    firsts = {row["path"]: row for row in manifests.to_pylist()}
    paths = sorted(firsts)
    once = pa.Table.from_pylist([firsts[path] | {c.TABLE: i} for i, path in enumerate(paths)], schema=c.MANIFESTS)
    marks = _whole(read_manifests(read)(iter(once.to_batches())), c.MARKS, c.KEY)
    # By address too: an entry of a table whose files are known by name may tell where its file lies.
    keys = pa.array([key, match_key(key, home)], pa.string())
    holding = pc.unique(marks.filter(pc.is_in(marks[c.KEY], keys))[c.TABLE]).to_pylist()
    for path in (paths[i] for i in holding):
        yield from (Way(state, lists[i], path) for i in snapshots[path])


def _refs_over(state: TableState, item: ManifestList) -> list[str]:
    """Branches and tags from whose head the snapshot is reached by going back."""
    parents = {found.snapshot_id: found.parent_id for found in state.manifest_lists}
    names = []
    for ref in state.refs:
        at: int | None = ref.snapshot_id
        visited: set[int] = set()
        while at is not None and at != item.snapshot_id and at not in visited:
            visited.add(at)
            at = parents.get(at)
        if at is not None and at == item.snapshot_id:
            names.append(ref.name)
    return names


def _whole(batches: Iterable[pa.RecordBatch], schema: pa.Schema, column: str) -> pa.Table:
    """The rows. An answer from half of a table would be a guess, so a damaged file raises."""
    table = pa.Table.from_batches(list(batches), schema=schema)
    noted = pc.starts_with(table[column], NOTE)
    notes = table.filter(noted)[column].to_pylist()
    if notes:
        raise IncompleteManifestError(str(json.loads(notes[0][1:])["message"]))
    return table.filter(pc.invert(noted))
