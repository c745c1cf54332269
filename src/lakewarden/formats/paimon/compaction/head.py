"""What the latest snapshot shows of some data files: their live entries, and the deletion vectors that apply to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakewarden.formats.avro import AvroFile, Record
from lakewarden.formats.paimon.compaction.layout import Layout
from lakewarden.formats.paimon.data.types import BY_PAIMON
from lakewarden.formats.paimon.data.vectors import Vector
from lakewarden.formats.paimon.manifests.files import identity_of, manifests_of, opened, read_needed
from lakewarden.formats.paimon.metadata.options import truth
from lakewarden.formats.paimon.metadata.table import PaimonTable
from lakewarden.formats.recent_files import RecentFiles
from lakewarden.model.errors import UnreadableMetadataError, UnsupportedTableError
from lakewarden.model.ports import Files
from lakewarden.model.uri import canonical

VECTORS = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live entry of a data file; `form` has the schema and the codec of the manifest that it is in."""

    record: Record
    form: AvroFile

    @property
    def partition(self) -> bytes:
        return bytes(self.record["_PARTITION"])

    @property
    def bucket(self) -> int:
        return int(self.record["_BUCKET"])

    @property
    def file(self) -> Record:
        found: Record = self.record["_FILE"]
        return found


@dataclass(frozen=True)
class Head:
    """The latest snapshot as far as some files have to do with it. `index` has the index manifest, None if there is none."""

    manifests: AvroFile
    files: Mapping[str, LiveFile]
    index: AvroFile | None
    vectors: Mapping[str, Vector]


def read_head(
    table: PaimonTable, layout: Layout, names: Collection[str], files: Files, recent: RecentFiles | None = None
) -> Head:
    """The files of these names that are live. Raises IncompleteManifestError for what cannot be read whole,
    UnsupportedTableError where readers would not apply the vectors that are there."""
    try:
        head = _read_head(table, layout, names, files, recent)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnreadableMetadataError(
            f"a manifest of {table.location} lacks or garbles a field ({type(error).__name__}: {error})"
        ) from error
    if head.vectors and not truth(table.main.schema.options, "deletion-vectors.enabled"):
        raise UnsupportedTableError(
            "the table has deletion vectors and deletion-vectors.enabled is not true, so its readers show rows that are "
            "deleted; nothing was touched",
            hint=BY_PAIMON,
        )
    return head


def _read_head(
    table: PaimonTable, layout: Layout, names: Collection[str], files: Files, recent: RecentFiles | None
) -> Head:
    latest = table.main.latest
    manifests = manifests_of(table, latest, files) if latest is not None else None
    if latest is None or manifests is None:
        return Head(AvroFile({}, "null", ()), {}, None, {})
    counts: dict[tuple[object, ...], int] = {}
    added: dict[tuple[object, ...], LiveFile] = {}
    for uri, file in opened(table, manifests, files, recent):
        form = AvroFile(file.schema, file.codec, ())
        for record in file.records:
            if record["_FILE"]["_FILE_NAME"] not in names:
                continue
            if record["_KIND"] not in (0, 1):
                raise UnreadableMetadataError(f"{uri} has an entry of the unknown kind {record['_KIND']}")
            identity = identity_of(record)
            counts[identity] = counts.get(identity, 0) + (1 if record["_KIND"] == 0 else -1)
            if record["_KIND"] == 0:
                added[identity] = LiveFile(record, form)
    found: dict[str, LiveFile] = {}
    for identity, count in counts.items():
        name = str(identity[3])
        if count not in (0, 1) or (count and name in found):
            raise UnreadableMetadataError(f"the manifests do not agree whether the file {name} is live")
        if count:
            found[name] = added[identity]
    index = read_needed(files, table.manifest(latest.index_manifest)) if latest.index_manifest else None
    return Head(manifests, found, index, _vectors(index, layout))


def _vectors(index: AvroFile | None, layout: Layout) -> dict[str, Vector]:
    """The vector of each data file that has one, by its bare name."""
    found: dict[str, Vector] = {}
    for record in index.records if index is not None else ():
        if record["_INDEX_TYPE"] != VECTORS or record.get("_GLOBAL_INDEX") is not None:
            raise UnsupportedTableError(
                f"the table has an index of the type {record['_INDEX_TYPE']}, which only Paimon's own writers keep up; "
                "nothing was touched",
                hint=BY_PAIMON,
            )
        path = index_path(record, layout)
        for one in record["_DELETIONS_VECTORS_RANGES"] or ():
            if one["f0"] in found:
                raise UnreadableMetadataError(f"the file {one['f0']} has two deletion vectors")
            found[one["f0"]] = Vector(path, int(one["f1"]), int(one["f2"]), one.get("_CARDINALITY"))
    return found


def index_path(record: Record, layout: Layout) -> str:
    """The address of a file of deletion vectors."""
    if record.get("_EXTERNAL_PATH"):
        return canonical(str(record["_EXTERNAL_PATH"]))
    return layout.index_directory(bytes(record["_PARTITION"]), int(record["_BUCKET"])) + str(record["_FILE_NAME"])
