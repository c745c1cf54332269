"""What has to be read to know which files tables reach: small tables of the driver's, made from the tables' states."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakewarden.model.roots import match_key
from lakewarden.model.table import TableState
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.names import KIND_CODES, SOFT, canonical_column

CONTENTS = {Kind.DATA: 0, Kind.DELETE: 1, Kind.INDEX: c.CONTENT_INDEX}
# Most catalogs have no version hint, and its name is protected anyway: as a needed file it would always be missing.
HINT = "/version-hint.text"
_NAMED = pa.schema([*c.MARKS, (c.HOME, pa.string())])


@dataclass(frozen=True)
class ToRead:
    """LISTS to read, MANIFESTS that no list names, and MARKS of the files that metadata itself names."""

    lists: pa.Table
    manifests: pa.Table
    named: pa.Table

    @staticmethod
    def of(states: Iterable[tuple[int, TableState]], homes: Mapping[str, str]) -> ToRead:
        """Of every table that can be read, selected or refused: that narrows what is changed, never what is protected."""
        lists: list[tuple[object, ...]] = []
        manifests: list[tuple[object, ...]] = []
        named: list[tuple[object, ...]] = []
        for number, state in states:
            home = homes.get(state.identifier)
            lists += [
                (number, state.format, item.uri, item.soft, item.data_files, item.delete_files, item.length, home)
                for item in state.manifest_lists
            ]
            manifests += [
                (number, state.format, item.soft, canonical(item.uri), None, None, None, CONTENTS[item.kind], home)
                for item in state.manifests
            ]
            named += [
                (number, file.uri, KIND_CODES[file.kind] + SOFT * file.soft, c.MARK_LIVE, home)
                for file in state.files
                if not file.uri.endswith(HINT)
            ]
        found = table_of(named, _NAMED)
        keys = [_keys(found[c.KEY].combine_chunks(), found[c.HOME])]
        found = found.set_column(1, c.KEY, keys).select(c.MARKS.names)
        return ToRead(table_of(lists, c.LISTS), table_of(manifests, c.MANIFESTS), found)

    def __bool__(self) -> bool:
        return bool(self.lists.num_rows or self.manifests.num_rows or self.named.num_rows)


def _keys(addresses: pa.Array, homes: pa.ChunkedArray) -> pa.Array:
    """What files are compared by. Raises ValueError for an address that cannot be compared."""
    keys = canonical_column(addresses)
    if keys.null_count or homes.null_count < len(homes):
        # Few tables know files by name; and an address in an unknown spelling is for `canonical` to complain of.
        pairs = zip(addresses.to_pylist(), homes.to_pylist(), strict=True)
        return pa.array([match_key(canonical(address), home) for address, home in pairs], pa.string())
    return keys


def table_of(rows: Collection[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    """Tuples as columns of a schema."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
