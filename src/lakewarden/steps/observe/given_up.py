"""Giving a table up: what of it is still there, and what would no longer be protected for its sake. No Spark.

Whoever abandons a table says that nobody needs it. So the table must be one that is really there, in a directory that
Lakewarden looks after or in its memory, and in no catalog: of a table that a catalog lists, other histories would lose
their protection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from lakewarden.ledger.database import Ledger
from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, TableListedError
from lakewarden.model.known_table import KnownTable
from lakewarden.model.ports import Shard
from lakewarden.model.roots import Root
from lakewarden.model.uri import canonical
from lakewarden.pipeline.read.names import METADATA_JSON
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, load_fleet
from lakewarden.storage.listing import list_shard
from lakewarden.storage.store import UNLISTABLE

AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What loses its protection with a table: metadata files of it, by root, and the places that it ever touched.

    `names` are those under which it is remembered. `unlisted` are roots that could not be looked through.
    """

    uuid: str
    names: tuple[str, ...]
    metadata: dict[str, int]
    example: str | None
    places: tuple[str, ...]
    unlisted: tuple[str, ...]

    @property
    def metadata_files(self) -> int:
        return sum(self.metadata.values())

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "metadata_files": self.metadata_files}


def what_is_given_up(deployment: Deployment, uuid: str) -> GivenUp:
    """What abandoning a table would leave unprotected. Raises TableListedError for a table that a catalog lists, and
    NotFoundError for one of which nothing is there."""
    fleet = load_fleet(deployment, deployment.clock.now())
    _check_unlisted(fleet, uuid)
    known = [row for row in fleet.memory.rows if row.uuid == uuid]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        looked = list(pool.map(lambda root: _strangers_in(deployment, fleet, root), fleet.roots))
    found: dict[str, list[str]] = {}
    for root, (strangers, _) in zip(fleet.roots, looked, strict=True):
        if mine := [uri for uri, whose in strangers if whose == uuid]:
            found[root.prefix] = mine
    unlisted = tuple(root.prefix for root, (_, whole) in zip(fleet.roots, looked, strict=True) if not whole)
    if not known and not found:
        partly = f" ({len(unlisted)} roots could not be listed)" if unlisted else ""
        raise NotFoundError(
            f"no root holds metadata of a table {uuid}, and none is remembered{partly}; nothing was changed",
            hint="The refusal LW-ROOT-002 names the uuid: `lakewarden doctor`, or the plan, shows it.",
        )
    return GivenUp(
        uuid=uuid,
        names=tuple(sorted({row.identifier for row in known})),
        metadata={prefix: len(uris) for prefix, uris in found.items()},
        example=next(chain.from_iterable(found.values()), None),
        places=tuple(places_of(known)),
        unlisted=unlisted,
    )


def _check_unlisted(fleet: Fleet, uuid: str) -> None:
    for state in fleet.states:
        known = fleet.memory.named(state.identifier)
        # A table that cannot be read is the one that had its name.
        its_own = state.uuid or (known.uuid if known else "")
        if its_own == uuid and state.identifier not in fleet.unlisted:
            raise TableListedError(
                f"table {uuid} is {state.identifier}, which its catalog lists; it stays protected, and nothing was changed"
            )


def _strangers_in(deployment: Deployment, fleet: Fleet, root: Root) -> tuple[list[tuple[str, str]], bool]:
    """The metadata files of a root that no table names, each with its table's uuid; and whether all of it was listed."""
    named = {
        canonical(uri)
        for state in fleet.states
        if state.identifier in root.tables
        for uri in (state.metadata_location, *(entry.uri for entry in state.history))
        if uri
    }
    whole, names = True, list[str]()
    for batch in list_shard(deployment.stores, Shard(root.id, root.prefix)):
        for key, flag in zip(batch["key"].to_pylist(), batch["flag"].to_pylist(), strict=True):
            whole = whole and not str(flag or "").startswith(UNLISTABLE)
            if flag is None and re.search(METADATA_JSON, key) and key not in named:
                names.append(key)
    return list(_whose(deployment, fleet, root, names)), whole


def _whose(deployment: Deployment, fleet: Fleet, root: Root, names: list[str]) -> Iterator[tuple[str, str]]:
    since: datetime = deployment.clock.now()
    for reader in deployment.readers.values():
        recognise = reader.recogniser(fleet.states, since, ())
        for uri in names:
            if found := recognise(uri, root.tables[0], deployment.stores):
                yield uri, str(found["uuid"])


def take_back(ledger: Ledger, uuid: str, actor: Actor, reason: str) -> None:
    """Put on record that an abandoned table is needed after all. Raises NotFoundError if none of that uuid is abandoned."""
    if uuid not in ledger.switches.abandoned():
        raise NotFoundError(
            f"no table {uuid} is abandoned; nothing was changed",
            hint="Only a table that was abandoned can be taken back; there is nothing to do.",
        )
    ledger.switches.take_back(uuid, actor, reason)


def remembered(ledger: Ledger, identifier: str) -> list[KnownTable]:
    """What is remembered under a table's name. Raises NotFoundError if nothing is."""
    known = [row for row in ledger.known_tables.memory().rows if row.identifier == identifier]
    if not known:
        raise NotFoundError(
            f"no table {identifier} is remembered; nothing was changed",
            hint="`lakewarden doctor` names the tables that are held for the sake of what was seen of them.",
        )
    return known


def places_of(known: Iterable[KnownTable]) -> list[str]:
    """Every directory that these tables ever touched."""
    return sorted({place for row in known for place in row.places})


def forget(ledger: Ledger, identifier: str, actor: Actor, reason: str) -> list[str]:
    """Put on record that a table's past does not count, and forget it. The directories that it touched."""
    known = remembered(ledger, identifier)
    ledger.switches.forget(identifier, actor, reason)
    ledger.known_tables.record((), gone=known)
    return places_of(known)
