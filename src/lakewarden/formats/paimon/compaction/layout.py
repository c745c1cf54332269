"""Where the files of a bucket lie. Manifests name files by bare names, and the directory is made of the partition's values.

Only partition columns whose values are spelled alike by every writer are here. A file that is not where it should be is
not rewritten, so a directory that was spelled otherwise costs nothing but that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Self

from lakewarden.formats.paimon.data.types import BY_PAIMON
from lakewarden.formats.paimon.metadata.options import truth, whole
from lakewarden.formats.paimon.metadata.support import data_directory, external_paths
from lakewarden.formats.paimon.metadata.table import PaimonTable
from lakewarden.formats.paimon.partitions.values import DEFAULT_NAME, Column, Value, decode, partition_columns
from lakewarden.model.errors import UnreadableMetadataError, UnsupportedTableError
from lakewarden.model.uri import FileUri

_SPELLED_ALIKE = frozenset({"STRING", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE"})
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(32)}
_BUCKET_BYTES = 4
UNAWARE = -1  # buckets: one for all rows


def bucket_key(partition: bytes, bucket: int) -> bytes:
    """What tells one bucket of one partition from every other."""
    return partition + bucket.to_bytes(_BUCKET_BYTES, "big", signed=True)


def of_bucket_key(key: bytes) -> tuple[bytes, int]:
    """The partition and the bucket of a key."""
    return key[:-_BUCKET_BYTES], int.from_bytes(key[-_BUCKET_BYTES:], "big", signed=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """What of a table tells where its files lie; it travels to tasks as text. `outside` is where new files go, if not below
    the table's own directory. `ordered`: the order of a bucket's files is the order of its rows."""

    location: str
    below: str
    keys: tuple[Column, ...]
    default_name: str
    legacy: bool
    index_beside_data: bool
    outside: str = ""
    ordered: bool = False

    @staticmethod
    def of(table: PaimonTable) -> Layout:
        """Raises UnsupportedTableError where directories are spelled in ways that are not known well enough."""
        schema = table.main.schema
        keys = partition_columns(schema)
        for key in keys:
            if key.type not in _SPELLED_ALIKE:
                raise UnsupportedTableError(
                    f"partition column {key.name} is of type {key.type}, whose directories writers spell in several ways; "
                    "nothing was touched",
                    hint=BY_PAIMON,
                )
        return Layout(
            location=table.location,
            below=data_directory(schema.options),
            keys=keys,
            default_name=schema.options.get("partition.default-name", DEFAULT_NAME),
            legacy=truth(schema.options, "partition.legacy-name", True),
            index_beside_data=truth(schema.options, "index-file-in-data-file-dir"),
            outside=_outside(schema.options),
            ordered=keeps_order(schema.options),
        )

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(**{**found, "keys": tuple(Column(**key) for key in found["keys"])})

    def directory(self, partition: bytes, bucket: int) -> str:
        """Where a bucket's files lie below the table's directory. Raises UnreadableMetadataError for bytes that are no
        partition."""
        return self._below(self.location, partition, bucket)

    def for_new_files(self, partition: bytes, bucket: int) -> str:
        """Where a bucket's new files go."""
        return self._below(self.outside or self.location, partition, bucket)

    def index_directory(self, partition: bytes, bucket: int) -> str:
        """Where a bucket's files of deletion vectors lie."""
        return self.directory(partition, bucket) if self.index_beside_data else f"{self.location}index/"

    def _below(self, root: str, partition: bytes, bucket: int) -> str:
        try:
            values = decode(partition, self.keys)
        except ValueError as error:
            raise UnreadableMetadataError(f"a manifest of {self.location} garbles a partition ({error})") from error
        named = "".join(
            f"{_escaped(key.name)}={_escaped(self._spelled(value))}/"
            for key, value in zip(self.keys, values, strict=True)
        )
        return f"{root}{f'{self.below}/' if self.below else ''}{named}bucket-{bucket}/"

    def _spelled(self, value: Value) -> str:
        if value is None or (isinstance(value, str) and not value.strip()):
            return self.default_name
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, date):
            return str((value - date(1970, 1, 1)).days) if self.legacy else value.isoformat()
        return str(value)


def keeps_order(options: Mapping[str, str]) -> bool:
    """Whether readers show the rows of a bucket in the order in which they were written."""
    return whole(options, "bucket", UNAWARE) != UNAWARE and truth(options, "bucket-append-ordered", True)


def _outside(options: Mapping[str, str]) -> str:
    """The first directory outside the table's own that it wants new files in; empty if it wants none there."""
    strategy = options.get("data-file.external-paths.strategy", "none").strip().lower()
    if strategy == "none":
        return ""
    paths: Sequence[str] = external_paths({"data-file.external-paths": options.get("data-file.external-paths", "")})
    if strategy != "round-robin" or not paths:
        raise UnsupportedTableError(
            f"the table has data-file.external-paths.strategy={strategy}, which this version does not follow; nothing was "
            "touched",
            hint=BY_PAIMON,
        )
    return FileUri.parse(paths[0]).as_prefix()


def _escaped(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)
