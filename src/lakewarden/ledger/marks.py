"""What runs leave in the state location, where a state database that went back to an older state cannot take it along.

A run leaves a mark before its first change, and so does each process that goes on with the run; the head of its journal
is its last mark. The database counts a mark before the mark is made. So a database that counts fewer marks of a run than
there are has lost what was written since, perhaps which files the run released.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping

from lakewarden.ledger.heads import FOLDER, HeadStores
from lakewarden.model.errors import StateBehindError

_BEGUN = re.compile(r"(?P<run>.+)\.begun-(?P<number>\d+)\.json")
_STOPPED = re.compile(r"(?P<run>.+)\.stopped-\d+\.json")
_ENDED = ".json"


def write_mark(stores: HeadStores, state_location: str, run_id: str, number: int, about: Mapping[str, str]) -> None:
    """Leave a run's mark of that number, create-only, with what a person needs to know who has lost the database."""
    uri = f"{state_location.rstrip('/')}/{FOLDER}/{run_id}.begun-{number}.json"
    if not stores.create(uri, json.dumps({"run_id": run_id, **about}, sort_keys=True).encode()):
        raise StateBehindError(f"{uri} is there already, and the state database does not know of it; nothing was done")


def marks_in(names: Collection[str]) -> dict[str, int]:
    """By run, how many marks the database must know of, for the names of the files in the folder."""
    begun: dict[str, int] = {}
    for found in filter(None, map(_BEGUN.fullmatch, names)):
        begun[found["run"]] = max(begun.get(found["run"], 0), int(found["number"]))
    # A head comes after whatever the run has begun.
    return begun | {run_id: begun.get(run_id, 0) + 1 for run_id in heads_in(names)}


def heads_in(names: Iterable[str]) -> set[str]:
    """The runs whose head is kept, for the names of the files in the folder."""
    others = (_BEGUN, _STOPPED)
    ended = (name for name in names if name.endswith(_ENDED) and not any(one.fullmatch(name) for one in others))
    return {name.removesuffix(_ENDED) for name in ended}


def stops_in(names: Iterable[str]) -> dict[str, list[str]]:
    """By run, the files that its stopped processes have left, for the names of the files in the folder."""
    found: dict[str, list[str]] = {}
    for name in names:
        if stop := _STOPPED.fullmatch(name):
            found.setdefault(stop["run"], []).append(name)
    return found
