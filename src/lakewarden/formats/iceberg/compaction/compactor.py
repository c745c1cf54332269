"""Compaction of a branch of an Iceberg table: whether it can be done exactly, what a task is asked for, and the commit."""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakewarden.formats.iceberg.commit.versions import Versions
from lakewarden.formats.iceberg.compaction.engine import check_engine, engine_group, engine_of
from lakewarden.formats.iceberg.compaction.head import Head, Wanted, read_head
from lakewarden.formats.iceberg.compaction.new_manifests import Replacement
from lakewarden.formats.iceberg.compaction.replace import GROUPS, Commit, in_the_table_twice, replace_files
from lakewarden.formats.iceberg.compaction.unused import named_since
from lakewarden.formats.iceberg.data.applicable import DeleteIndex, LiveFile
from lakewarden.formats.iceberg.data.columns import (
    arrow_schema,
    column_by_id,
    current_schema,
    current_sort_order,
    fields_within,
    lineage_columns,
)
from lakewarden.formats.iceberg.data.form import Form, check_columns
from lakewarden.formats.iceberg.data.names import name_mapping
from lakewarden.formats.iceberg.data.order import EQUALITY, Input, Order, Rewritten
from lakewarden.formats.iceberg.data.places import check_places, directory_of, spread_of
from lakewarden.formats.iceberg.data.rewrite import rewrite
from lakewarden.formats.iceberg.data.row_groups import why_not
from lakewarden.formats.iceberg.data.sort import check_sortable
from lakewarden.formats.iceberg.data.told import told_of
from lakewarden.formats.iceberg.manifests.files import ROW_IDS
from lakewarden.formats.iceberg.manifests.opened import OpenedManifests
from lakewarden.formats.iceberg.manifests.reader import data_files
from lakewarden.formats.iceberg.metadata.document import GARBLED
from lakewarden.formats.iceberg.metadata.known import KnownVersions, Version
from lakewarden.formats.iceberg.metadata.refs import MAIN, ancestors, head_of
from lakewarden.formats.iceberg.partitions.drop import commits_in
from lakewarden.formats.iceberg.partitions.specs import specs_of
from lakewarden.formats.iceberg.rewrite.rewriter import java_properties
from lakewarden.model.compaction import (
    Compactable,
    CompactionPolicy,
    GroupFiles,
    GroupLease,
    Landed,
    Prepared,
    Unused,
    right_sizes,
    roll_size,
)
from lakewarden.model.engine_group import EngineGroup
from lakewarden.model.errors import (
    LakewardenError,
    LeftToEngineError,
    PlanOutdatedError,
    UnreadableMetadataError,
    UnsupportedTableError,
)
from lakewarden.model.manifests import JavaTable
from lakewarden.model.partitions import stored_value
from lakewarden.model.ports import Blobs, Files, ReadAvro, Rows
from lakewarden.model.table import Pointer, TableState, name_within
from lakewarden.model.uri import FileUri

TARGET, TARGET_BYTES = "write.target-file-size-bytes", 512 << 20
_PASSED_ON = ("write.parquet.", "write.metadata.metrics.")


@dataclass(frozen=True, slots=True)
class _Kept:
    """What stays with the driver of a group while its order is carried out."""

    spec: int
    partition: dict[str, Any]
    order: Order


@dataclass(frozen=True, slots=True)
class _Holding:
    """The groups that were read, at which head, since when their files may be there twice, and those of the groups that a
    commit may have named: a repeated one must not forget that."""

    groups: Mapping[str, _Kept]
    head: Head
    once_at: int
    sent: set[str] = field(default_factory=set)


class IcebergRewriteWorker:
    """Carried to executors."""

    def data_files(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return data_files(blobs, avro)

    def live_files(self, rows: Any, layout: str) -> Any:
        """The rows as they are: manifests of one snapshot name live files, each by its address."""
        return rows

    def rewrite(self, order: str, stores: Any) -> str:
        asked = Order.loads(order)
        # Each attempt has names of its own: one that is repeated, or goes on after it was given up, writes over nobody's file.
        asked = replace(asked, prefix=f"{asked.prefix}-{uuid.uuid4().hex[:8]}")
        with tempfile.TemporaryDirectory(prefix="lakewarden-rewrite-") as scratch:
            return rewrite(asked, _DataFiles(stores), Path(scratch)).dumps()


class IcebergCompactor:
    """Tables whose rows can be carried into new files exactly. The others are refused by name."""

    worker = IcebergRewriteWorker()

    def __init__(self, files: Files, known: KnownVersions, versions: Callable[[], Versions]) -> None:
        self._files = files
        self._known = known
        self._versions = versions
        self._opened = OpenedManifests()

    def survey(self, state: TableState, policy: CompactionPolicy) -> Compactable:
        try:
            document = self._known.loaded(state.metadata_location).document
            if head_of(document, policy.branch) is None:
                where = "" if policy.branch == MAIN else f" on a branch {policy.branch}"
                return Compactable(left=f"it has no snapshot{where}")
            engine = engine_why = ""
            try:
                check_supported(document, policy)
            except LeftToEngineError as error:
                if policy.branch != MAIN:
                    raise
                engine, engine_why = engine_of(document, policy), error.message
            self._versions()
            asked = policy.target_file_size_bytes or int(state.properties.get(TARGET, TARGET_BYTES))
            specs = specs_of(document)
            return Compactable(
                max(1, asked),
                engine=engine,
                engine_why=engine_why,
                written={} if specs[int(document.get("default-spec-id") or 0)].unpartitioned else _written(document),
                several_specs=len({spec.unpartitioned for spec in specs.values()}) > 1,
            )
        except LakewardenError as error:
            return Compactable(refusal=error.refusal())
        except GARBLED as error:
            reason = f"{state.metadata_location} lacks or garbles a field ({error}); nothing was touched"
            return Compactable(refusal=UnreadableMetadataError(reason).refusal())

    def made(self, pointer: Pointer, branch: str, run_id: str) -> list[Landed]:
        return _made_by(self._versions().current(name_within(pointer.identifier)), branch, run_id)

    def prepare(
        self, pointer: Pointer, table_uuid: str, groups: Sequence[GroupFiles], target: int, run_id: str
    ) -> Prepared:
        version = self._versions().current(name_within(pointer.identifier))
        document = version.document
        if document.get("table-uuid") != table_uuid:
            raise PlanOutdatedError(f"{pointer.identifier} was dropped and made again; nothing of it was changed")
        branch = _branch_of(groups)
        base = head_of(document, branch)
        if base is None:
            raise PlanOutdatedError(f"{pointer.identifier} has no branch {branch} any more; nothing of it was changed")
        made = _made_by(version, branch, run_id)
        done = {name for landed in made for name in landed.groups}
        open_groups = [group for group in groups if group.name not in done]
        wanted = _wanted(document, branch, open_groups)
        head = read_head(self._files, document, base, wanted, self._opened)
        kept: dict[str, _Kept] = {}
        dropped: dict[str, str] = {}
        by_engine: dict[str, EngineGroup] = {}
        for group in open_groups:
            present = [head.data[path][1] for path in group.paths if path in head.data]
            if len(present) < len(group.paths):
                dropped[group.name] = "files of it are not in the table any more"
            elif twice := head.twice.intersection(group.paths) or _repeated(group.paths):
                dropped[group.name] = in_the_table_twice(min(twice))
            elif len({live.partition for live in present} | {group.partition or present[0].partition}) > 1:
                dropped[group.name] = "its files lie in several partitions by now"
            elif group.engine and branch != MAIN:
                dropped[group.name] = f"Iceberg's own writers are not asked for files of the branch {branch}"
            elif group.engine:
                item = self._order(document, group.name, present, head.deletes, target, run_id)
                kept[group.name] = item
                by_engine[group.name] = engine_group(
                    group, item.spec, item.partition, item.order, target, self._java(pointer, version)
                )
            elif why := _not_ours_to_read([*present, *(one.live for live in present for one in head.deletes.on(live))]):
                dropped[group.name] = why
            else:
                kept[group.name] = self._order(document, group.name, present, head.deletes, target, run_id)
        orders = {name: item.order.dumps() for name, item in kept.items() if name not in by_engine}
        return Prepared(
            version,
            orders,
            made,
            dropped,
            _Holding(kept, head, wanted.once_at),
            branch,
            int(base["snapshot-id"]),
            {name: ", ".join(f"{k}={v}" for k, v in item.partition.items()) for name, item in kept.items()},
            by_engine,
        )

    def _java(self, pointer: Pointer, version: Version) -> JavaTable:
        table = name_within(pointer.identifier)
        return JavaTable(table, version.location, java_properties(self._versions().store_properties(table)))

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
        groups = tuple(
            Replacement(kept.spec, kept.partition, kept.order, results[name], leases[name].key, leases[name].epoch)
            for name, kept in prepared.kept.groups.items()
            if name in results and name not in dropped
        )
        if not groups:
            return Landed(None, (), dropped)
        name = f"{properties['lakewarden.run']}/{pointer.identifier}/{_name_of(groups)}"
        table = name_within(pointer.identifier)
        versions, sent = self._versions(), prepared.kept.sent
        commit = Commit(
            table,
            prepared.seen,
            groups,
            name,
            properties,
            now_ms,
            may_commit,
            prepared.branch,
            sent,
            self._opened,
            prepared.kept.head,
            prepared.kept.once_at,
        )
        outcome = replace_files(versions, self._files, commit)
        written = [file.path for group in groups if group.name not in sent for file in group.result.files]
        return replace(
            _landed(outcome.snapshot, outcome.landed, outcome.summary),
            dropped={**dropped, **outcome.dropped},
            unused=Unused(written, lambda: named_since(self._files, versions.current(table), prepared.seen, written)),
            failed=outcome.failed,
            ways={name: _way(results[name]) for name in outcome.landed},
        )

    def _order(
        self,
        document: Mapping[str, Any],
        name: str,
        present: Sequence[LiveFile],
        index: DeleteIndex,
        target: int,
        run_id: str,
    ) -> _Kept:
        """What a task is asked to do with a group."""
        schema = current_schema(document)
        inputs = tuple(
            Input(
                path=live.path,
                size=int(live.file["file_size_in_bytes"]),
                rows=int(live.file["record_count"]),
                sequence=live.sequence,
                first_row_id=live.file.get("first_row_id"),
                deletes=tuple(one.deletion for one in index.on(live)),
            )
            for live in present
        )
        known = {int(field["id"]) for field in fields_within(schema)}
        keyed = {n for one in inputs for d in one.deletes if d.kind == EQUALITY for n in d.equality_ids}
        dropped = tuple(found for n in sorted(keyed - known) if (found := column_by_id(document, n)) is not None)
        spec, partition = present[0].spec, dict(present[0].file["partition"] or {})
        properties = document.get("properties") or {}
        order = Order(
            group=name,
            version=int(document["format-version"]),
            columns=schema,
            inputs=inputs,
            prefix=f"{directory_of(document, spec, partition)}{run_id}-{name}",
            target=roll_size(sum(one.size for one in inputs), target),
            dropped=dropped,
            constants=_constants(document, spec, partition),
            names=name_mapping(properties),
            properties={k: str(v) for k, v in properties.items() if k.startswith(_PASSED_ON)},
            spread=spread_of(document),
            sort=current_sort_order(document),
            sizes=right_sizes(target),
        )
        if why_not(order) is None:
            told = (replace(one, told=told_of(live.file)) for one, live in zip(inputs, present, strict=True))
            order = replace(order, inputs=tuple(told))
        return _Kept(spec, partition, order)


class _DataFiles:
    """The stores as rewriting asks for them."""

    def __init__(self, stores: Any) -> None:
        self._stores = stores
        self._by_directory: dict[str, Any] = {}

    def get(self, uri: str) -> bytes:
        found: bytes = self._stores.get(uri)
        return found

    def get_range(self, uri: str, start: int, length: int) -> bytes:
        found: bytes = self._at(uri).get_range(FileUri.parse(uri).key, start, length)
        return found

    def read_into(self, uri: str, room: memoryview) -> int:
        return int(self._at(uri).read_into(FileUri.parse(uri).key, room))

    def put_stream(self, uri: str, pieces: Any) -> None:
        place = FileUri.parse(uri)
        self._stores.at(str(place)).put_stream(place.key, pieces)

    def _at(self, uri: str) -> Any:
        """The store of an address. One for each directory: to ask which it is costs more than to read a small file."""
        directory = uri.rpartition("/")[0]
        if (store := self._by_directory.get(directory)) is None:
            store = self._by_directory[directory] = self._stores.at(uri)
        return store


def check_supported(document: Mapping[str, Any], policy: CompactionPolicy) -> None:
    """Raise UnsupportedTableError for a table whose files this version cannot write exactly as its owner wants them."""
    properties = {str(k): str(v) for k, v in (document.get("properties") or {}).items()}
    check_places(document)
    name_mapping(properties)
    columns = arrow_schema(current_schema(document))
    check_engine(document, policy)
    if (order := current_sort_order(document)) is not None:
        check_sortable(order, columns)
    elif policy.strategy == "sort":
        raise UnsupportedTableError(
            "the strategy is sort, and it has no sort order; nothing was touched",
            hint='Give the table one (ALTER TABLE … WRITE ORDERED BY …), or set strategy = "binpack" for it.',
        )
    if int(document["format-version"]) >= ROW_IDS and (
        taken := {f.name for f in lineage_columns()} & set(columns.names)
    ):
        raise UnsupportedTableError(
            f"its column {min(taken)} has the name under which new files store the ids of rows; nothing was touched",
            hint="Rename the column.",
        )
    check_columns(Form.of(properties), columns)


def _not_ours_to_read(files: Iterable[LiveFile]) -> str | None:
    """Why a group is left alone whose files, or deletes of them, are encrypted or of another format than Parquet."""
    for live in files:
        kind = str(live.file["file_format"]).upper()
        if live.file.get("key_metadata") is not None:
            return f"{live.path} is encrypted; Iceberg's own rewrite_data_files can read it"
        if kind not in ("PARQUET", "PUFFIN"):
            return f"{live.path} is of the format {kind}, not Parquet; Iceberg's own rewrite_data_files can read it"
    return None


def _repeated(paths: Sequence[str]) -> set[str]:
    return {path for path, count in Counter(paths).items() if count > 1}


def _way(found: Rewritten) -> str:
    return f"{found.way}: {found.why}" if found.why else found.way


def _written(document: Mapping[str, Any]) -> dict[int, int]:
    """When each snapshot was made that brought or took rows: one that replaces files brings none."""
    return {
        int(snapshot["snapshot-id"]): int(snapshot["timestamp-ms"])
        for snapshot in document.get("snapshots") or ()
        if (snapshot.get("summary") or {}).get("operation") != "replace"
    }


def _name_of(groups: Sequence[Replacement]) -> str:
    """The same for the same groups. A group that could not land is tried again with others, and that is another commit."""
    return hashlib.sha256("\n".join(sorted(group.order.group for group in groups)).encode()).hexdigest()[:16]


def _made_by(version: Version, branch: str, run_id: str) -> list[Landed]:
    """The commits that a run has made on a branch."""
    return [
        _landed(int(made["snapshot-id"]), str(made["summary"].get(GROUPS, "")).split(","), made["summary"])
        for name, made in commits_in(version.document, branch).items()
        if name.startswith(f"{run_id}/")
    ]


def _landed(snapshot: int | None, groups: Sequence[str], summary: Mapping[str, str]) -> Landed:
    """A commit, as its summary tells of it."""
    counted = summary.get
    return Landed(
        snapshot,
        groups,
        {},
        int(counted("added-data-files", 0)),
        int(counted("deleted-data-files", 0)),
        int(counted("added-files-size", 0)),
        int(counted("removed-files-size", 0)),
    )


def _branch_of(groups: Sequence[GroupFiles]) -> str:
    """The one branch that groups of a commit are on."""
    branches = {group.branch for group in groups} or {MAIN}
    if len(branches) > 1:
        raise ValueError(f"groups of the branches {sorted(branches)} cannot be committed at once")
    return branches.pop()


def _wanted(document: Mapping[str, Any], branch: str, groups: Sequence[GroupFiles]) -> Wanted:
    partitions = {group.partition for group in groups}
    known = frozenset(partition for partition in partitions if partition is not None)
    planned = {group.planned_from for group in groups}
    return Wanted(
        frozenset(path for group in groups for path in group.paths),
        known if len(known) == len(partitions) else None,
        # The plan leaves out what is there twice. Of a snapshot that has expired since, or was rolled back, it says nothing.
        once_at=next(
            (
                int(snapshot.get("sequence-number") or 0)
                for snapshot in ancestors(document, branch)
                if planned == {snapshot["snapshot-id"]}
            ),
            0,
        ),
    )


def _constants(document: Mapping[str, Any], spec: int, partition: Mapping[str, Any]) -> dict[int, Any]:
    """What the partition says of columns themselves, by their ids, as it is stored."""
    specs = document.get("partition-specs") or [{"spec-id": 0, "fields": document.get("partition-spec") or []}]
    fields = next(found["fields"] for found in specs if int(found["spec-id"]) == spec)
    return {
        int(field["source-id"]): stored_value(value)
        for field, value in zip(fields, partition.values(), strict=True)
        if field["transform"] == "identity"
    }
