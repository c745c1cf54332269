"""The last hash of each run's journal, and one of what the run noted, kept once outside the database: a cut tail shows.

A run that ends leaves it, and so does a process that stops before its run has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
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
    if stores.create(uri, _dumps(run_id, head)):
        return
    kept = _head(stores.get(uri))
    if kept is None or kept.journal != head.journal:
        raise StateError(
            f"{uri} holds another journal head than run {run_id} has now; it was not replaced",
            hint="The journal changed after the run ended. See `lakewarden audit verify`.",
        )


def write_stop(stores: HeadStores, state_location: str, run_id: str, number: int, head: Head) -> None:
    """Keep how far a run was when the process that left its mark of that number stopped. What is there stays."""
    stores.create(f"{state_location.rstrip('/')}/{FOLDER}/{stop_name(run_id, number)}", _dumps(run_id, head))


def stop_name(run_id: str, number: int) -> str:
    return f"{run_id}.stopped-{number}.json"


def verify_stops(
    stores: HeadStores, state_location: str, run_id: str, names: Collection[str], links: Collection[str], noted: Noted
) -> list[str]:
    """What does not agree, in words, of the moments at which processes of a run stopped. `links` are the hashes of all its
    entries: what a stopped process wrote last is somewhere among them, whoever has gone on since."""
    problems = []
    for name in sorted(names):
        uri = f"{state_location.rstrip('/')}/{FOLDER}/{name}"
        kept = _head(stores.get(uri))
        if kept is None:
            problems.append(f"run {run_id}: {uri} cannot be read as a head")
            continue
        if kept.journal not in links:
            problems.append(
                f"run {run_id}: its journal has no {kept.journal[:12]}, which was its last entry when it stopped: its tail "
                "was cut or changed"
            )
        if kept.noted != noted(run_id, kept.steps):
            problems.append(f"run {run_id}: a step that it had noted when it stopped is missing or changed")
    return problems


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


def _dumps(run_id: str, head: Head) -> bytes:
    told = {"run_id": run_id, "head": head.journal, "steps": head.steps, "noted": head.noted}
    return json.dumps(told, sort_keys=True).encode()


def _head(data: bytes) -> Head | None:
    try:
        found = json.loads(data)
        return Head(str(found["head"]), int(found["steps"]), str(found["noted"]))
    except (ValueError, KeyError, TypeError):
        return None
