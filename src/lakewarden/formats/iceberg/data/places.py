"""Where a table wants its data files: under which root, in which partition's directory, spread by a hash or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from functools import lru_cache
from typing import Any

from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.partitions import stored_value

DATA_PATH = "write.data.path"
OBJECT_STORAGE, PARTITIONED_PATHS = "write.object-storage.enabled", "write.object-storage.partitioned-paths"
_OWN_PROVIDERS = ("write.location-provider.impl", "write.py-location-provider.impl")
_OLD_PATHS = ("write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True, slots=True)
class Spread:
    """How names are spread over a bucket: `root` is before the hash, `context` names the table in a root that it shares."""

    root: str
    context: str
    partitioned: bool

    def place(self, uri: str) -> str:
        """Where a file goes that would lie here without being spread."""
        rest = uri.removeprefix(f"{self.root}/")
        if self.context:
            return f"{self.root}/{_hash(rest)}/{self.context}/{rest}"
        return f"{self.root}/{_hash(rest)}{'/' if self.partitioned else '-'}{rest}"


def check_places(document: Mapping[str, Any]) -> None:
    """Raise UnsupportedTableError where only a program of the owner's can say where files go."""
    properties = document.get("properties") or {}
    for key in (*_OWN_PROVIDERS, *_OLD_PATHS):
        if key in properties:
            raise UnsupportedTableError(
                f"the table sets {key} = {properties[key]}, which this version cannot obey exactly; nothing was touched"
            )


def spread_of(document: Mapping[str, Any]) -> Spread | None:
    """How the table's names are spread; None if they are not."""
    properties = document.get("properties") or {}
    if str(properties.get(OBJECT_STORAGE, "false")).lower() != "true":
        return None
    location = str(document["location"]).rstrip("/")
    root = _root(document)
    context = "" if root.startswith(location) else "/".join(location.split("/")[-2:])
    return Spread(root, context, str(properties.get(PARTITIONED_PATHS, "true")).lower() == "true")


def directory_of(document: Mapping[str, Any], spec: int, partition: Mapping[str, Any]) -> str:
    """The directory of a partition's new files, with a slash at its end, before names are spread."""
    spread = spread_of(document)
    path = "" if spread is not None and not spread.partitioned else _partition_path(document, spec, partition)
    return f"{_root(document)}/{path}/" if path else f"{_root(document)}/"


def _root(document: Mapping[str, Any]) -> str:
    said = (document.get("properties") or {}).get(DATA_PATH)
    return str(said or f"{str(document['location']).rstrip('/')}/data").rstrip("/")


def _partition_path(document: Mapping[str, Any], spec: int, partition: Mapping[str, Any]) -> str:
    """A partition as a path, as every writer of Iceberg spells it: `day=2024-01-31/region=eu`."""
    if not partition:
        return ""
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record

    specs = document.get("partition-specs") or [{"spec-id": 0, "fields": document.get("partition-spec") or []}]
    found = PartitionSpec.model_validate(next(one for one in specs if int(one["spec-id"]) == spec))
    schemas = document.get("schemas") or [document["schema"]]
    now = document.get("current-schema-id")
    # A column of an old spec may be gone from the schema of today.
    for one in sorted(schemas, key=lambda one: (one.get("schema-id") != now, -int(one.get("schema-id") or 0))):
        schema = Schema.model_validate(one)
        if {field.source_id for field in found.fields} <= set(schema.field_ids):
            values = [stored_value(value) if isinstance(value, date | time) else value for value in partition.values()]
            return found.partition_to_path(Record(*values), schema)
    return ""


@lru_cache(maxsize=4096)
def _hash(name: str) -> str:
    from pyiceberg.table.locations import load_location_provider

    asked = {OBJECT_STORAGE: "true", PARTITIONED_PATHS: "true", DATA_PATH: "root"}
    return load_location_provider("root", asked).new_data_location(name)[len("root/") : -len(name) - 1]
