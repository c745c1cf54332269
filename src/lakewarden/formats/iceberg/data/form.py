"""How a table wants its Parquet files written: every property of `write.parquet.`, obeyed or refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewarden.formats.iceberg.data.columns import id_of
from lakewarden.model.errors import LeftToEngineError

PREFIX = "write.parquet."
CODEC, LEVEL, VERSION = f"{PREFIX}compression-codec", f"{PREFIX}compression-level", f"{PREFIX}page-version"
ROW_GROUP, PAGE, DICTIONARY = (
    f"{PREFIX}row-group-size-bytes",
    f"{PREFIX}page-size-bytes",
    f"{PREFIX}dict-size-bytes",
)
BLOOM, BLOOM_SHARE, BLOOM_DISTINCT, BLOOM_BYTES = (
    f"{PREFIX}bloom-filter-enabled.column.",
    f"{PREFIX}bloom-filter-fpp.column.",
    f"{PREFIX}bloom-filter-ndv.column.",
    f"{PREFIX}bloom-filter-max-bytes",
)
STATISTICS, ENCODED = f"{PREFIX}stats-enabled.column.", f"{PREFIX}dict-encoding-enabled.column."
# How often Java looks at its buffers and what it measures them by (ours are measured uncompressed), whether it guesses at the
# sizes of filters (ours fit their values), what it does with variants, which we refuse anyway.
_OF_NO_EFFECT = (
    f"{PREFIX}row-group-check-min-record-count",
    f"{PREFIX}row-group-check-max-record-count",
    f"{PREFIX}row-group-size-track-uncompressed",
    f"{PREFIX}bloom-filter-adaptive-enabled",
    f"{PREFIX}shred-variants",
    f"{PREFIX}variant-inference-buffer-size",
)
_KNOWN = (CODEC, LEVEL, VERSION, ROW_GROUP, PAGE, DICTIONARY, BLOOM_BYTES, *_OF_NO_EFFECT)
_BY_COLUMN = (BLOOM, BLOOM_SHARE, BLOOM_DISTINCT, STATISTICS, ENCODED)
# What Iceberg's Java library gives to new tables.
DEFAULT_CODEC, DEFAULT_ROW_GROUP, DEFAULT_PAGE, DEFAULT_DICTIONARY = "zstd", 128 << 20, 1 << 20, 2 << 20
DEFAULT_BLOOM_BYTES, DEFAULT_BLOOM_SHARE = 1 << 20, 0.01
# Java's "lz4" is the outdated form with a frame of Hadoop's, which Arrow reads and does not write.
_CODECS = {
    "zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "lz4_raw": "lz4", "brotli": "brotli", "uncompressed": "none",
}  # fmt: skip
_LEVELLED = ("zstd", "gzip", "brotli")


@dataclass(frozen=True, slots=True)
class Bloom:
    """The filter that a column is to have."""

    false_positives: float
    most_bytes: int
    distinct: int | None


@dataclass(frozen=True, slots=True)
class Form:
    """How one table's files are written. `statistics` and `encoded` say yes or no of columns, by name."""

    codec: str
    level: int | None
    page_version: str
    row_group: int
    page: int
    dictionary: int
    blooms: Mapping[str, Bloom]
    statistics: Mapping[str, bool]
    encoded: Mapping[str, bool]

    @staticmethod
    def of(properties: Mapping[str, str]) -> Form:
        """Raises LeftToEngineError for what cannot be obeyed exactly."""
        for key in properties:
            if key.startswith(PREFIX) and key not in _KNOWN and not key.startswith(_BY_COLUMN):
                raise _unsupported(key, properties[key])
        codec = properties.get(CODEC, DEFAULT_CODEC).lower()
        if codec not in _CODECS:
            raise _unsupported(CODEC, codec)
        version = properties.get(VERSION, "v1").lower()
        if version not in ("v1", "v2"):
            raise _unsupported(VERSION, version)
        levelled = LEVEL in properties and codec in _LEVELLED
        return Form(
            _CODECS[codec],
            _number(properties, LEVEL, 0, least=-(1 << 17)) if levelled else None,
            "1.0" if version == "v1" else "2.0",
            _number(properties, ROW_GROUP, DEFAULT_ROW_GROUP),
            _number(properties, PAGE, DEFAULT_PAGE),
            _number(properties, DICTIONARY, DEFAULT_DICTIONARY),
            dict(_blooms(properties)),
            _switches(properties, STATISTICS),
            _switches(properties, ENCODED),
        )


def check_columns(form: Form, fields: pa.Schema) -> None:
    """Raise LeftToEngineError for a filter over a column that none is written for."""
    for name, found in named(fields):
        if name in form.blooms and (pa.types.is_nested(found.type) or pa.types.is_boolean(found.type)):
            raise LeftToEngineError(
                f"the table wants a bloom filter over {name}, of type {found.type}, which this version does not write; "
                "nothing was rewritten"
            )
    inside = {name for name, _, repeated in leaves(fields) if repeated}
    for name in form.blooms:
        if name in inside:
            raise LeftToEngineError(
                f"the table wants a bloom filter over {name}, within a list or map, which this version does not write; "
                "nothing was rewritten"
            )


def named(fields: Any, above: str = "") -> Iterator[tuple[str, pa.Field]]:
    """Every column and member of a struct, by its name with dots; what is in lists and maps is not looked at."""
    for found in fields:
        name = f"{above}{found.name}"
        yield name, found
        if pa.types.is_struct(found.type):
            yield from named(found.type, f"{name}.")


def leaves(fields: Any, above: str = "", path: Sequence[str] = ()) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """The columns that hold values: the table's name for each, its path in a Parquet file, and whether it is repeated."""
    for found in fields:
        yield from _leaves_of(found, f"{above}{found.name}", (*path, found.name))


def _leaves_of(found: pa.Field, name: str, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    kind = found.type
    if pa.types.is_struct(kind):
        for member in kind:
            yield from _leaves_of(member, f"{name}.{member.name}", (*path, member.name))
    elif pa.types.is_map(kind):
        for member, what in ((kind.key_field, "key"), (kind.item_field, "value")):
            yield from _repeated(_leaves_of(member, f"{name}.{what}", (*path, "key_value", what)))
    elif pa.types.is_list(kind):
        yield from _repeated(_leaves_of(kind.value_field, f"{name}.element", (*path, "list", "element")))
    else:
        assert id_of(found) is not None
        yield name, path, False


def _repeated(found: Iterator[tuple[str, tuple[str, ...], bool]]) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    yield from ((name, path, True) for name, path, _ in found)


def _blooms(properties: Mapping[str, str]) -> Iterator[tuple[str, Bloom]]:
    most = _number(properties, BLOOM_BYTES, DEFAULT_BLOOM_BYTES)
    for name, wanted in _switches(properties, BLOOM).items():
        if wanted:
            try:
                share = float(properties.get(BLOOM_SHARE + name, DEFAULT_BLOOM_SHARE))
            except ValueError:
                share = 0.0
            if not 0 < share < 1:
                raise _unsupported(BLOOM_SHARE + name, properties[BLOOM_SHARE + name])
            yield name, Bloom(share, most, _number(properties, BLOOM_DISTINCT + name, 0, least=0) or None)


def _switches(properties: Mapping[str, str], prefix: str) -> dict[str, bool]:
    found = {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
    return {name: value.strip().lower() == "true" for name, value in found.items()}


def _number(properties: Mapping[str, str], key: str, default: int, least: int = 1) -> int:
    text = properties.get(key, str(default))
    try:
        number = int(text)
    except ValueError:
        raise _unsupported(key, text) from None
    if number < least:
        raise _unsupported(key, text)
    return number


def _unsupported(key: str, value: str) -> LeftToEngineError:
    return LeftToEngineError(
        f"the table wants {key} = {value}, which this version cannot obey exactly; nothing was rewritten"
    )
