"""Manifests of an Iceberg table: what rewriting them would gain, and the commit of a snapshot that has them rewritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lakewarden.formats.avro import AvroFile
from lakewarden.formats.iceberg.commit.new_snapshot import current_snapshot
from lakewarden.formats.iceberg.commit.versions import MovedOnError, Versions
from lakewarden.formats.iceberg.manifests.files import DATA, live_count, read_list
from lakewarden.formats.iceberg.metadata.document import GARBLED
from lakewarden.formats.iceberg.metadata.known import KnownVersions, Version
from lakewarden.formats.iceberg.partitions.bounds import bound
from lakewarden.formats.iceberg.partitions.drop import commits_in
from lakewarden.formats.iceberg.partitions.specs import Spec, specs_of
from lakewarden.model.errors import (
    CatalogUnavailableError,
    CommitConflictError,
    InvariantViolationError,
    LakewardenError,
    PlanOutdatedError,
    UnreadableMetadataError,
)
from lakewarden.model.lineage import made_of
from lakewarden.model.manifests import JavaTable, ManifestLine, ManifestPolicy, ManifestSurvey, Range, survey_of
from lakewarden.model.ports import Files
from lakewarden.model.table import Pointer, TableState, name_within

TARGET = "commit.manifest.target-size-bytes"
TARGET_BYTES = 8 << 20


class IcebergManifestRewriter:
    """Manifests of the main branch's current snapshot."""

    def __init__(self, files: Files, known: KnownVersions, versions: Callable[[], Versions]) -> None:
        """`versions` opens the catalog, or raises UnsupportedTableError for a kind that cannot be changed safely."""
        self._files = files
        self._known = known
        self._versions = versions

    def survey(self, state: TableState, policy: ManifestPolicy) -> ManifestSurvey:
        try:
            document = self._known.loaded(state.metadata_location).document
            snapshot = current_snapshot(document)
            if snapshot is None:
                return ManifestSurvey(left="it has no snapshot")
            self._versions()
            target = int(state.properties.get(TARGET, TARGET_BYTES))
            lines = manifest_lines(read_list(self._files, snapshot), specs_of(document))
            return survey_of(lines, max(1, target), policy)
        except LakewardenError as error:
            return ManifestSurvey(refusal=error.refusal())
        except GARBLED as error:
            reason = f"{state.metadata_location} lacks or garbles a field ({error}); nothing was touched"
            return ManifestSurvey(refusal=UnreadableMetadataError(reason).refusal())

    def open(self, pointer: Pointer, uuid: str) -> JavaTable:
        table = name_within(pointer.identifier)
        version = self._versions().current(table)
        if version.document.get("table-uuid") != uuid:
            raise PlanOutdatedError(f"{pointer.identifier} was dropped and made again; nothing of it was changed")
        commits = {made: _recorded(snapshot) for made, snapshot in commits_in(version.document).items()}
        return JavaTable(table, version.location, java_properties(self._versions().store_properties(table)), commits)

    def commit(self, opened: JavaTable, snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
        versions = self._versions()
        version = self._known.fresh(opened.metadata_location)
        parent = current_snapshot(version.document)
        if parent is None or snapshot.get("parent-snapshot-id") != parent["snapshot-id"]:
            raise InvariantViolationError(
                f"the rewritten manifests of {opened.name} do not follow its snapshot; they were left alone"
            )
        before, after = read_list(self._files, parent), read_list(self._files, snapshot)
        if content_of(before) != content_of(after):
            raise InvariantViolationError(
                f"the rewritten manifests of {opened.name} hold {dict(content_of(after))} where the current ones hold "
                f"{dict(content_of(before))} (files and rows, by spec and content); they were left alone"
            )
        snapshot = {**snapshot, "summary": {**snapshot["summary"], **_made_of(parent, before, after)}}
        try:
            versions.add(opened.name, version, snapshot)
        except MovedOnError as error:
            raise CommitConflictError(f"{opened.name} was changed while its manifests were rewritten") from error
        except CatalogUnavailableError:
            if not _has(versions.current(opened.name), int(snapshot["snapshot-id"])):
                raise
        return _recorded(snapshot)


def manifest_lines(manifests: AvroFile, specs: Mapping[int, Spec]) -> Iterator[ManifestLine]:
    """The manifests of a list, with the partitions that each spans."""
    for row in manifests.records:
        content, size = int(row.get("content") or DATA), int(row["manifest_length"])
        if live_count(row) == 0:
            yield ManifestLine(int(row["partition_spec_id"]), content, size, (), empty=True)
            continue
        spec = specs[int(row["partition_spec_id"])]
        summaries = row.get("partitions") or [{}] * len(spec.fields)
        ranges = tuple(
            Range(
                bound(field, summary.get("lower_bound")),
                bound(field, summary.get("upper_bound")),
                summary.get("contains_null") is not False,
            )
            for field, summary in zip(spec.fields, summaries, strict=True)
        )
        yield ManifestLine(spec.number, content, size, ranges)


def content_of(manifests: AvroFile) -> Counter[tuple[int, int, str]]:
    """Live files and rows by spec and content: what no rewriting may change."""
    found: Counter[tuple[int, int, str]] = Counter()
    for row in manifests.records:
        key = int(row["partition_spec_id"]), int(row.get("content") or DATA)
        found[*key, "files"] += live_count(row) or 0
        found[*key, "rows"] += int(row.get("added_rows_count") or 0) + int(row.get("existing_rows_count") or 0)
    return +found


def _made_of(parent: Mapping[str, Any], before: AvroFile, after: AvroFile) -> dict[str, str]:
    """What a rewriting read: the manifests that are no more, and the rows that they listed."""
    left = {row["manifest_path"] for row in after.records}
    gone = [row for row in before.records if row["manifest_path"] not in left]
    rows = sum(int(row.get("added_rows_count") or 0) + int(row.get("existing_rows_count") or 0) for row in gone)
    return made_of([int(parent["snapshot-id"])], rows, sum(int(row["manifest_length"]) for row in gone))


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's words for a store in those of the Java library, which are nearly the same."""
    found = {k: v for k, v in properties.items() if k.startswith(("s3.", "client.", "gcs.", "adls."))}
    if region := found.get("s3.region"):
        found.setdefault("client.region", region)
    if "s3.endpoint" in found and properties.get("s3.force-virtual-addressing", "false").lower() != "true":
        found.setdefault("s3.path-style-access", "true")
    return found


def _recorded(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """What a run remembers of the snapshot it made: how many manifests were replaced, and by how many."""
    summary = snapshot["summary"]
    replaced, created = int(summary.get("manifests-replaced", 0)), int(summary.get("manifests-created", 0))
    return {"snapshot": snapshot["snapshot-id"], "manifests": replaced, "created": created}


def _has(version: Version, snapshot: int) -> bool:
    return any(int(s["snapshot-id"]) == snapshot for s in version.document.get("snapshots") or [])
