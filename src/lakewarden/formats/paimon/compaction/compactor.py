"""Compaction of a Paimon append table's main branch: whether it can be done exactly, what a task is asked, and the commit."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakewarden.formats.paimon.commit.new_snapshot import COMPACT, Commit
from lakewarden.formats.paimon.compaction.head import Head, LiveFile, read_head
from lakewarden.formats.paimon.compaction.layout import Layout
from lakewarden.formats.paimon.compaction.planned import data_files, live_by_address
from lakewarden.formats.paimon.compaction.replace import (
    BYTES_ADDED,
    BYTES_REMOVED,
    FILES_ADDED,
    FILES_REMOVED,
    Outcome,
    Replacement,
    groups_of,
    live_inputs,
    out_of_order,
    properties_of,
    replace_files,
)
from lakewarden.formats.paimon.compaction.support import check_supported, target_of, tracked
from lakewarden.formats.paimon.data.order import Input, Order, Rewritten
from lakewarden.formats.paimon.data.rewrite import rewrite
from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.formats.paimon.metadata.state import table_uuid
from lakewarden.formats.paimon.metadata.table import PaimonTable
from lakewarden.formats.recent_files import RecentFiles
from lakewarden.model.compaction import (
    Compactable,
    CompactionPolicy,
    GroupFiles,
    GroupLease,
    Landed,
    Prepared,
    Unused,
    roll_size,
)
from lakewarden.model.errors import (
    CommitConflictError,
    LakewardenError,
    LeaseLostError,
    PlanOutdatedError,
    UnreadableMetadataError,
)
from lakewarden.model.ports import Blobs, Files, ReadAvro, Rows
from lakewarden.model.table import ManifestList, NamedManifest, Pointer, TableState
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Kind

_GARBLED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class PaimonRewriteWorker:
    """Carried to executors."""

    def data_files(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return data_files(blobs, avro)

    def live_files(self, rows: Any, layout: str) -> Any:
        return live_by_address(rows, Layout.loads(layout))

    def rewrite(self, order: str, stores: Any) -> str:
        with tempfile.TemporaryDirectory(prefix="lakewarden-rewrite-") as scratch:
            return rewrite(Order.loads(order), _DataFiles(stores), Path(scratch)).dumps()


class PaimonCompactor:
    """Append tables whose rows can be carried into new files exactly. The others are refused by name."""

    worker = PaimonRewriteWorker()

    def __init__(self, files: Files, known: KnownTables) -> None:
        self._files = files
        self._known = known
        self._recent = RecentFiles()

    def survey(self, state: TableState, policy: CompactionPolicy) -> Compactable:
        try:
            table = self._known.at(state.metadata_location)
            check_supported(table.main.schema, policy)
            layout = Layout.of(table)
            latest = table.main.latest
            if latest is None:
                return Compactable(left="it has no snapshot")
            names = [name for name in (latest.base, latest.delta) if name]
            return Compactable(
                target_of(table.main.schema, policy),
                layout=layout.dumps(),
                ordered=layout.ordered,
                lists=tuple(ManifestList(table.manifest(name), length=latest.length_of(name)) for name in names),
                manifests=tuple(
                    NamedManifest(table.manifest(name), Kind.INDEX) for name in [latest.index_manifest] if name
                ),
            )
        except LakewardenError as error:
            return Compactable(refusal=error.refusal())
        except _GARBLED as error:
            reason = (
                f"the metadata of {state.location} is garbled ({type(error).__name__}: {error}); nothing was touched"
            )
            return Compactable(refusal=UnreadableMetadataError(reason).refusal())

    def made(self, pointer: Pointer, branch: str, run_id: str) -> list[Landed]:
        return _made_by(self._known.now(_location(pointer)), run_id)

    def prepare(
        self, pointer: Pointer, table_uuid: str, groups: Sequence[GroupFiles], target: int, run_id: str
    ) -> Prepared:
        table = self._known.now(_location(pointer))
        _check_uuid(pointer, table, table_uuid)
        made = _made_by(table, run_id)
        done = {name for landed in made for name in landed.groups}
        waiting = [group for group in groups if group.name not in done]
        layout = Layout.of(table)
        names = {_name(path) for group in waiting for path in group.paths}
        head = read_head(table, layout, names, self._files, self._recent)
        orders: dict[str, Order] = {}
        dropped: dict[str, str] = {}
        for group in waiting:
            present = [head.files[name] for path in group.paths if (name := _name(path)) in head.files]
            if len(present) < len(group.paths):
                dropped[group.name] = "files of it are not in the table any more"
            elif (why := live_inputs(present) or (out_of_order(present) if layout.ordered else None)) is not None:
                dropped[group.name] = why
            else:
                orders[group.name] = _order(table, layout, head, group.name, present, target)
        texts = {name: order.dumps() for name, order in orders.items()}
        latest = table.main.latest
        return Prepared(table, texts, made, dropped, orders, start_snapshot=None if latest is None else latest.id)

    def commit(
        self,
        pointer: Pointer,
        prepared: Prepared,
        answers: Mapping[str, str],
        leases: Mapping[str, GroupLease],
        properties: Mapping[str, str],
        now_ms: int,
        may_commit: Callable[[], None],
    ) -> Landed:
        results = {name: Rewritten.loads(text) for name, text in answers.items()}
        dropped = {name: f"{found.code} {found.message}" for name, found in results.items() if found.code is not None}
        groups = [
            Replacement(order, results[name], leases[name].key, leases[name].epoch)
            for name, order in prepared.kept.items()
            if name in results and name not in dropped
        ]
        if not groups:
            return Landed(None, (), dropped)
        user = _user(properties["lakewarden.run"])
        commit = Commit(user, _identifier(group.order.group for group in groups), now_ms, properties, COMPACT)
        sent: set[str] = set()
        failed: LakewardenError | None = None
        try:
            outcome = replace_files(
                prepared.seen, groups, commit, self._files, self._known.now, may_commit, sent, self._recent
            )
        except (CommitConflictError, LeaseLostError, PlanOutdatedError) as error:
            outcome, failed = Outcome(), error
        written = [file.path for group in groups if group.order.group not in sent for file in group.result.files]
        return replace(
            _landed(outcome.snapshot, outcome.landed, outcome.properties),
            dropped={**dropped, **outcome.dropped},
            # A snapshot that a try of an earlier process left says by its groups which files are in the table.
            unused=Unused(() if set(outcome.landed) - sent else written, lambda: self._named(prepared.seen, written)),
            failed=failed,
        )

    def _named(self, seen: PaimonTable, paths: Sequence[str]) -> set[str]:
        """Those of the paths that the table's newest snapshot names."""
        table = self._known.now(seen.location)
        head = read_head(table, Layout.of(table), {_name(path) for path in paths}, self._files, self._recent)
        return {path for path in paths if _name(path) in head.files}


def _order(
    table: PaimonTable, layout: Layout, head: Head, group: str, present: Sequence[LiveFile], target: int
) -> Order:
    """What a task is asked to do with a group, its files in the order in which their rows were numbered."""
    schema = table.main.schema
    present = sorted(present, key=lambda live: (live.file["_MIN_SEQUENCE_NUMBER"], live.file["_FILE_NAME"]))
    directory = layout.directory(present[0].partition, present[0].bucket)
    inputs = tuple(
        Input(
            name=str(live.file["_FILE_NAME"]),
            path=str(live.file.get("_EXTERNAL_PATH") or f"{directory}{live.file['_FILE_NAME']}"),
            size=int(live.file["_FILE_SIZE"]),
            rows=int(live.file["_ROW_COUNT"]),
            schema=int(live.file["_SCHEMA_ID"]),
            min_sequence=int(live.file["_MIN_SEQUENCE_NUMBER"]),
            max_sequence=int(live.file["_MAX_SEQUENCE_NUMBER"]),
            first_row_id=live.file.get("_FIRST_ROW_ID"),
            vector=head.vectors.get(str(live.file["_FILE_NAME"])),
        )
        for live in present
    )
    wanted = {schema.id, *(one.schema for one in inputs)}
    known = {found.id: list(found.fields) for found in (*table.main.earlier, schema)}
    return Order(
        group=group,
        schema=schema.id,
        schemas={number: known[number] for number in wanted if number in known},
        inputs=inputs,
        directory=layout.for_new_files(present[0].partition, present[0].bucket),
        target=roll_size(sum(one.size for one in inputs), target),
        tracked=tracked(schema),
        options=dict(schema.options),
    )


class _DataFiles:
    """The stores as rewriting asks for them."""

    def __init__(self, stores: Any) -> None:
        self._stores = stores

    def get(self, uri: str) -> bytes:
        found: bytes = self._stores.get(str(FileUri.parse(uri)))
        return found

    def get_range(self, uri: str, start: int, length: int) -> bytes:
        found: bytes = self._stores.get_range(str(FileUri.parse(uri)), start, length)
        return found

    def put_stream(self, uri: str, pieces: Any) -> None:
        place = FileUri.parse(uri)
        self._stores.at(str(place)).put_stream(place.key, pieces)


def _check_uuid(pointer: Pointer, table: PaimonTable, expected: str) -> None:
    if table_uuid(table) != expected:
        raise PlanOutdatedError(f"{pointer.identifier} was dropped and made again; nothing of it was changed")


def _location(pointer: Pointer) -> str:
    return pointer.metadata_location.rpartition("#")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _made_by(table: PaimonTable, run_id: str) -> list[Landed]:
    """The commits that a run has made on main."""
    mine = (snapshot for snapshot in table.main.snapshots if snapshot.commit_user == _user(run_id))
    noted = ((snapshot.id, properties_of(snapshot)) for snapshot in mine)
    return [_landed(number, groups_of(said), said) for number, said in noted]


def _landed(snapshot: int | None, groups: Sequence[str], said: Mapping[str, str]) -> Landed:
    """A commit, as its writer noted it."""
    counted = said.get
    return Landed(
        snapshot,
        groups,
        {},
        int(counted(FILES_ADDED, 0)),
        int(counted(FILES_REMOVED, 0)),
        int(counted(BYTES_ADDED, 0)),
        int(counted(BYTES_REMOVED, 0)),
    )


def _user(run_id: str) -> str:
    return f"lakewarden-compaction-{run_id}"


def _identifier(groups: Iterable[str]) -> int:
    """The same for the same groups. A group that could not land is tried again with others, and that is another commit."""
    return int(hashlib.sha256("\n".join(sorted(groups)).encode()).hexdigest()[:15], 16)
