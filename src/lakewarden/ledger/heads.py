"""The last hash of each run's journal, kept once outside the database, so that a cut tail shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

from lakewarden.model.errors import StateError

FOLDER = "journal-heads"


class HeadStores(Protocol):
    """What this needs of the object stores."""

    def create(self, uri: str, data: bytes) -> bool:
        """Write an object that is not there yet; False when it is."""
        ...

    def get(self, uri: str) -> bytes: ...


def head_uri(state_location: str, run_id: str) -> str:
    """Where a run's head lies."""
    return f"{state_location.rstrip('/')}/{FOLDER}/{run_id}.json"


def write_head(stores: HeadStores, state_location: str, run_id: str, head_hash: str) -> None:
    """Keep a finished run's head. The same one again is fine; raises StateError when another one is there."""
    uri = head_uri(state_location, run_id)
    data = json.dumps({"run_id": run_id, "head": head_hash}, sort_keys=True).encode()
    if stores.create(uri, data):
        return
    kept = _head(stores.get(uri))
    if kept != head_hash:
        raise StateError(
            f"{uri} holds another journal head than run {run_id} has now; it was not replaced",
            hint="The journal changed after the run ended. See `lakewarden audit verify`.",
        )


def verify_heads(stores: HeadStores, state_location: str, heads: Mapping[str, str]) -> list[str]:
    """What does not agree, in words, for run ids with the heads the journal has now (`journal.head`)."""
    problems = []
    for run_id, head in heads.items():
        uri = head_uri(state_location, run_id)
        try:
            kept = _head(stores.get(uri))
        except FileNotFoundError:
            problems.append(f"run {run_id}: no head was kept at {uri}")
            continue
        if kept is None:
            problems.append(f"run {run_id}: {uri} cannot be read as a head")
        elif kept != head:
            ends = f"the journal ends at {head[:12]}, but {kept[:12]} was kept"
            problems.append(f"run {run_id}: {ends}: its tail was cut or changed")
    return problems


def _head(data: bytes) -> str | None:
    try:
        return str(json.loads(data)["head"])
    except (ValueError, KeyError, TypeError):
        return None
