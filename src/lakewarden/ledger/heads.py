"""The last hash of each run's journal, and one of what the run noted, kept once outside the database: a cut tail shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lakewarden.model.errors import StateError

FOLDER = "journal-heads"


class HeadStores(Protocol):
    """What this needs of the object stores."""

    def create(self, uri: str, data: bytes) -> bool:
        """Write an object that is not there yet; False when it is."""
        ...

    def get(self, uri: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Head:
    """What a run was when it ended: the last hash of its journal, and the hash of as many steps as it had noted by then.

    A run notes more when it is closed a second time after a crash, or when somebody restores what it did.
    """

    journal: str
    steps: int
    noted: str


# The hash of the first so many steps of a run.
Noted = Callable[[str, int], str]


def head_uri(state_location: str, run_id: str) -> str:
    """Where a run's head lies."""
    return f"{state_location.rstrip('/')}/{FOLDER}/{run_id}.json"


def write_head(stores: HeadStores, state_location: str, run_id: str, head: Head) -> None:
    """Keep a finished run's head. The same one again is fine; raises StateError when another journal's is there."""
    uri = head_uri(state_location, run_id)
    told = {"run_id": run_id, "head": head.journal, "steps": head.steps, "noted": head.noted}
    if stores.create(uri, json.dumps(told, sort_keys=True).encode()):
        return
    kept = _head(stores.get(uri))
    if kept is None or kept.journal != head.journal:
        raise StateError(
            f"{uri} holds another journal head than run {run_id} has now; it was not replaced",
            hint="The journal changed after the run ended. See `lakewarden audit verify`.",
        )


def verify_heads(stores: HeadStores, state_location: str, heads: Mapping[str, str], noted: Noted) -> list[str]:
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
            continue
        if kept.journal != head:
            ends = f"the journal ends at {head[:12]}, but {kept.journal[:12]} was kept"
            problems.append(f"run {run_id}: {ends}: its tail was cut or changed")
        if kept.noted != noted(run_id, kept.steps):
            problems.append(f"run {run_id}: a step that it noted is missing or changed")
    return problems


def _head(data: bytes) -> Head | None:
    try:
        found = json.loads(data)
        return Head(str(found["head"]), int(found["steps"]), str(found["noted"]))
    except (ValueError, KeyError, TypeError):
        return None
