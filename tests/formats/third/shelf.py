"""Shelf's catalog and its expiry."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lakewarden.model.errors import LakewardenError, PlanOutdatedError, UnreadableMetadataError
from lakewarden.model.expiry import Changes, Detail, Expiration, ExpirySteps, SnapshotLine
from lakewarden.model.format import Format, Vend
from lakewarden.model.policy import ExpiryPolicy
from lakewarden.model.ports import Files
from lakewarden.model.table import Hold, Holder, ManifestList, Pointer, ReachedFile, Ref, TableState
from lakewarden.model.verdict import Kind
from tests.formats.third.reader import ShelfReader

STATE = re.compile(r"state-(\d+)\.json")
NAMESPACE = "shelf"

Record = dict[str, Any]


class ShelfFormat:
    """One directory of tables. Partitions, manifests and the cold tier are nothing it knows of."""

    format = "shelf"
    partition_expirer = None
    historian = None
    manifest_rewriter = None
    branch_keeper = None
    compactor = None
    relocator = None

    def __init__(self, name: str, properties: Mapping[str, str], files: Files) -> None:
        self.name = name
        self._directory = properties["directory"]
        self._files = files
        self.reader = ShelfReader()
        self.expirer = ShelfExpirer(files)

    def pointers(self) -> Sequence[Pointer]:
        found = self._files.entries(self._directory).directories
        states = {table: current(self._files, f"{self._directory}{table}/") for table in found}
        return [Pointer(f"{self.name}.{NAMESPACE}.{table}", state) for table, state in states.items() if state]

    def pointer(self, identifier: str) -> Pointer | None:
        return next((found for found in self.pointers() if found.identifier == identifier), None)

    def beside(self, location: str) -> Sequence[str]:
        newest = current(self._files, location.rpartition("/")[0] + "/")
        return [newest] if newest else []

    def load(self, pointer: Pointer, cutoff: datetime) -> TableState:
        location = pointer.metadata_location.rpartition("/")[0] + "/"
        found = TableState(
            identifier=pointer.identifier, format=self.format, uuid="", metadata_location=pointer.metadata_location,
            location=location, roots=(location,),
        )  # fmt: skip
        try:
            return table_state(found, read(self._files, pointer.metadata_location))
        except LakewardenError as error:
            return found.refused(error.refusal())


class ShelfExpirer:
    def __init__(self, files: Files) -> None:
        self._files = files

    def survey(self, state: TableState, policy: ExpiryPolicy, now: datetime) -> Expiration:
        document = read(self._files, state.metadata_location)
        *older, _ = document["snapshots"]
        since = now - (policy.retain or timedelta())
        going = [s for s in older if datetime.fromtimestamp(s["time_ms"] / 1000, now.tzinfo) < since]
        kept = [s for s in document["snapshots"] if s not in going]
        return Expiration(
            expired=tuple(SnapshotLine("main", s["id"], s["time_ms"], "old") for s in going),
            kept=tuple(SnapshotLine("main", s["id"], s["time_ms"], "newest or young") for s in kept),
            holders=(holder(state.metadata_location, kept),),
            detail={"uuid": document["uuid"], "snapshots": [s["id"] for s in going]},
        )

    def outdated(self, pointer: Pointer, detail: Detail, *, resumed: bool) -> str | None:
        same = read(self._files, pointer.metadata_location)["uuid"] == detail["uuid"]
        return None if same else "it was dropped and made again"

    def carry_out(self, pointer: Pointer, detail: Detail, steps: ExpirySteps) -> Changes:
        document = read(self._files, pointer.metadata_location)
        left = [s for s in document["snapshots"] if s["id"] not in detail["snapshots"]]
        steps.archive(json.dumps(document).encode(), detail["snapshots"])
        if not self._files.create(
            after(pointer.metadata_location), json.dumps({**document, "snapshots": left}).encode()
        ):
            raise PlanOutdatedError(f"{pointer.identifier} was committed to; nothing of it was changed")
        return {"snapshots": len(document["snapshots"]) - len(left)}


def current(files: Files, location: str) -> str | None:
    """The state file in effect; None for a directory that is no table."""
    numbers = [int(match[1]) for file in files.entries(location).files if (match := STATE.fullmatch(file.key))]
    return f"{location}state-{max(numbers)}.json" if numbers else None


def after(location: str) -> str:
    directory, _, name = location.rpartition("/")
    match = STATE.fullmatch(name)
    assert match is not None
    return f"{directory}/state-{int(match[1]) + 1}.json"


def read(files: Files, uri: str) -> Record:
    try:
        found: Record = json.loads(files.get(uri))
    except (ValueError, FileNotFoundError) as error:
        raise UnreadableMetadataError(f"{uri} cannot be read ({error}); nothing was touched") from error
    return found


def table_state(found: TableState, document: Record) -> TableState:
    snapshots = document["snapshots"]
    needs = holder(found.metadata_location, snapshots)
    return replace(
        found,
        uuid=document["uuid"],
        format_version=1,
        current_snapshot_id=snapshots[-1]["id"],
        refs=(Ref("main", snapshots[-1]["id"], "branch"),),
        files=needs.files,
        manifest_lists=needs.manifest_lists,
        snapshot_ids=frozenset(s["id"] for s in snapshots),
        updated_ms=snapshots[-1]["time_ms"],
    )


def holder(state: str, snapshots: Sequence[Record]) -> Holder:
    lists = tuple(ManifestList(s["list"], length=s["length"], snapshot_id=s["id"]) for s in snapshots)
    named = (ReachedFile(state, Kind.METADATA), *(ReachedFile(s["list"], Kind.MANIFEST_LIST) for s in snapshots))
    return Holder(Hold.ALL, lists, (), named)


def open_format(name: str, properties: Mapping[str, str], files: Files, vend: Vend) -> Format:
    return ShelfFormat(name, properties, files)
