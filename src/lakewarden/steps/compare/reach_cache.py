"""What each table reached, remembered by its metadata file: a table that did not move is not read again.

Metadata files, lists and manifests never change, so the same metadata file (with the same soft lists beside
it) reaches the same files. One Parquet file holds all tables; the ledger knows its size and digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.ledger.cache import CacheFile
from lakewarden.model.table import TableState

if TYPE_CHECKING:
    from lakewarden.pipeline.compare.by_hash import Reach
    from lakewarden.steps.deployment import Deployment
    from lakewarden.steps.observe.fleet import Fleet

KIND: Final = "reach"
MOST_FILES = 16
SCHEMA = pa.schema(
    [
        ("state", pa.string()),
        ("prefixes", pa.list_(pa.string())),
        ("hashes", pa.list_(pa.binary())),
        ("kinds", pa.list_(pa.binary())),
        ("outside", pa.list_(pa.string())),
        ("outside_kinds", pa.list_(pa.int32())),
    ]
)


def remembered_reach(deployment: Deployment, fleet: Fleet, own: Mapping[int, tuple[str, ...]]) -> dict[int, Reach]:
    """What the tables reach that stand where they stood when they were last read, by number."""
    from lakewarden.pipeline.compare.by_hash import Reach

    wanted = {_name_of(state, own.get(n, ())): n for n, state in enumerate(fleet.states) if state.refusal is None}
    found: dict[int, Reach] = {}
    for file in deployment.ledger.cache.files(KIND):
        for row in _rows(deployment, file):
            if (number := wanted.get(row["state"])) is not None:
                packed = list(zip(row["prefixes"], row["hashes"], row["kinds"], strict=True))
                found[number] = Reach(packed, list(zip(row["outside"], row["outside_kinds"], strict=True)))
    return found


def remember_reach(
    deployment: Deployment,
    fleet: Fleet,
    own: Mapping[int, tuple[str, ...]],
    fresh: Mapping[int, Reach],
    notes: list[str],
) -> None:
    """Keep what was read and proven now. A table with a damaged file is not among it."""
    damaged = {json.loads(note[1:]).get("table") for note in notes}
    rows: list[dict[str, Any]] = [
        {
            "state": _name_of(fleet.states[number], own.get(number, ())),
            "prefixes": [prefix for prefix, _, _ in reach.packed],
            "hashes": [hashes for _, hashes, _ in reach.packed],
            "kinds": [kinds for _, _, kinds in reach.packed],
            "outside": [key for key, _ in reach.outside],
            "outside_kinds": [kind for _, kind in reach.outside],
        }
        for number, reach in fresh.items()
        if number not in damaged
    ]
    if not rows:
        return
    earlier = deployment.ledger.cache.files(KIND)
    if len(earlier) >= MOST_FILES:
        # Many small files are folded into one, which leaves behind what no table stands at any more.
        alive = {_name_of(state, own.get(n, ())) for n, state in enumerate(fleet.states)}
        kept = {row["state"]: row for file in earlier for row in _rows(deployment, file) if row["state"] in alive}
        rows = list((kept | {row["state"]: row for row in rows}).values())
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    digest = hashlib.sha256(data).hexdigest()
    entry = CacheFile(KIND, f"{deployment.state}cache/{KIND}-{digest[:32]}.parquet", digest, len(rows), len(data))
    deployment.stores.put(entry.uri, data)
    folded = [file.uri for file in earlier] if len(earlier) >= MOST_FILES else []
    deployment.ledger.cache.replace(KIND, [uri for uri in folded if uri != entry.uri], entry)


def _rows(deployment: Deployment, file: CacheFile) -> list[dict[str, Any]]:
    """The rows of a file that is exactly the one that was written; none of any other."""
    try:
        data = deployment.stores.get(file.uri)
    except FileNotFoundError:
        return []
    if hashlib.sha256(data).hexdigest() != file.sha256:
        return []
    rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(data)).to_pylist()
    return rows


def _name_of(state: TableState, own: tuple[str, ...]) -> str:
    """Everything that decides what a table reaches, and how it is packed."""
    named = [f"{item.uri} {item.soft}" for item in state.manifest_lists]
    named += [f"{item.uri} {item.soft}" for item in state.manifests]
    parts = [state.uuid, state.metadata_location, *own, *named]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
