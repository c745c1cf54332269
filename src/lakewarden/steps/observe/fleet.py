"""Every table of every catalog, and the roots they share: the live side, whatever was selected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakewarden.model.doubt import UNREAD, Doubt, Look, doubted_roots, doubts_of
from lakewarden.model.errors import CatalogUnavailableError, Refusal, StoreUnavailableError
from lakewarden.model.known_table import Memory
from lakewarden.model.ports import Catalog
from lakewarden.model.roots import BY_NAME, Claim, Root, claims_of, group_roots, homes_of
from lakewarden.model.table import Pointer, TableState
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.links import aliased
from lakewarden.steps.observe.owners import foreign_owner, owner_record
from lakewarden.steps.observe.unlisted import unlisted_tables

LOAD_THREADS = 16
_GLOB = frozenset("*?[")
TRIES = 3


@dataclass(frozen=True)
class Fleet:
    """The tables as one moment shows them. A table's number is its place in `states`.

    `homes` has the tables whose files are known by bare name, and what those names are prefixed with to be compared.
    `memory` is what was known before of every table ever seen; `doubts` are those of which less can be seen now.
    `unlisted` are those of the tables that no catalog lists: they are read where they were last seen, and refused.
    `forgotten` are the names whose past operators said not to count; `catalogs` are those that are configured.
    """

    states: tuple[TableState, ...]
    claims: tuple[Claim, ...]
    roots: tuple[Root, ...]
    homes: Mapping[str, str] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    doubts: Sequence[Doubt] = ()
    unlisted: frozenset[str] = frozenset()
    forgotten: frozenset[str] = frozenset()
    catalogs: frozenset[str] = frozenset()

    @property
    def numbers(self) -> dict[str, int]:
        return {state.identifier: number for number, state in enumerate(self.states)}

    @property
    def pointers(self) -> dict[str, str]:
        return {state.identifier: state.metadata_location for state in self.states}


def pointers_of(catalogs: Iterable[Catalog]) -> dict[str, tuple[Catalog, Pointer]]:
    """Where every table's metadata is now, read fresh; a catalog that stays silent stops everything."""
    found: dict[str, tuple[Catalog, Pointer]] = {}
    for catalog in catalogs:
        found |= {pointer.identifier: (catalog, pointer) for pointer in _patiently()(catalog.pointers)}
    return found


def pointer_of(deployment: Deployment, identifier: str) -> tuple[Catalog, Pointer] | None:
    """Where one table's metadata is now, read fresh; None if it is not there."""
    catalog = deployment.format_of(identifier)
    found = _patiently()(catalog.pointer, identifier)
    return (catalog, found) if found is not None else None


def _patiently() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(CatalogUnavailableError),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(0.2, 2),
        reraise=True,
    )


def load_fleet(deployment: Deployment, cutoff: datetime) -> Fleet:
    """Load every table, and refuse each root of which anything is unknown."""
    found = pointers_of(deployment.formats.values())
    states = load_states(found.values(), cutoff)
    memory = deployment.ledger.known_tables.memory()
    doubts = doubts_of(memory, _look(deployment, states))
    absent = unlisted_tables(deployment.formats, memory, doubts, found, cutoff)
    states += absent
    claims = claims_of(states)
    roots = group_roots(claims)
    homes = homes_of(roots, {state.identifier for state in states if deployment.readers[state.format].by_name})
    refused = _refused_roots(deployment, roots, states, doubts)
    unlisted = frozenset(state.identifier for state in absent)
    forgotten = deployment.ledger.switches.forgotten()
    catalogs = frozenset(deployment.formats)
    return Fleet(tuple(states), tuple(claims), tuple(refused), homes, memory, doubts, unlisted, forgotten, catalogs)


def look_of(deployment: Deployment, fleet: Fleet) -> Look:
    """The fleet as it is compared with what is remembered."""
    return _look(deployment, (state for state in fleet.states if state.identifier not in fleet.unlisted))


def _look(deployment: Deployment, states: Iterable[TableState]) -> Look:
    by_name = {state.identifier: state for state in states}
    listed = {name: state.metadata_location for name, state in by_name.items()}
    return Look(listed, by_name, deployment.clock.now(), deployment.ledger.switches.abandoned())


def own_home(deployment: Deployment, state: TableState) -> str | None:
    """What prefixes the names of a table that shares no directory, if its format knows files by name."""
    if not deployment.readers[state.format].by_name or not state.location:
        return None
    return BY_NAME + FileUri.parse(state.location).as_prefix()


def load_states(pointers: Iterable[tuple[Catalog, Pointer]], cutoff: datetime) -> list[TableState]:
    """The tables at these pointers, read side by side. A store that is not there stops everything."""
    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        states = list(pool.map(lambda found: found[0].load(found[1], cutoff), pointers))
    if states and all(state.refusal and state.refusal.code == StoreUnavailableError.code for state in states):
        raise StoreUnavailableError(f"no table's metadata could be read ({states[0].refusal.message})")
    return states


def moved_since(deployment: Deployment, before: Fleet, since: datetime) -> list[TableState]:
    """Tables whose metadata is another one now than in the fleet, or that are new, read with what was current `since`."""
    known = before.pointers
    now = pointers_of(deployment.formats.values())
    return load_states([found for name, found in now.items() if known.get(name) != found[1].metadata_location], since)


def selected(identifier: str, select: Sequence[str], exclude: Sequence[str]) -> bool:
    """Whether a table may be changed: it matches a selection (or there is none) and no exclusion."""
    return selection(select, exclude)(identifier)


def selection(select: Sequence[str], exclude: Sequence[str], within: Sequence[str] = ()) -> Callable[[str], bool]:
    """`selected` for many tables: thousands of plain names are one look-up, and only globs are tried one by one.

    Where `within` says anything, a table must match one of its patterns too.
    """
    wanted, unwanted, inside = _matching(select), _matching(exclude), _matching(within)
    return lambda identifier: (
        (not select or wanted(identifier)) and not unwanted(identifier) and (not within or inside(identifier))
    )


def _matching(patterns: Sequence[str]) -> Callable[[str], bool]:
    # A name may hold what a glob reads as a class: t[1] is also the table that is called so.
    names, globs = frozenset(patterns), [pattern for pattern in patterns if not _GLOB.isdisjoint(pattern)]
    return lambda identifier: identifier in names or any(fnmatchcase(identifier, glob) for glob in globs)


def _refused_roots(
    deployment: Deployment, roots: list[Root], states: list[TableState], doubts: Sequence[Doubt]
) -> Iterable[Root]:
    by_name = {state.identifier: state for state in states}
    forked = _forks(states)
    doubted = doubted_roots(doubts, [root.prefix for root in roots])
    owners = _foreign_owners(deployment, roots)
    linked = aliased([*(root.prefix for root in roots), FileUri.parse(deployment.state).as_prefix()], states)
    for root in roots:
        tables = [by_name[name] for name in root.tables]
        reason = (
            _misplaced(root, deployment.state)
            or _mixed(root, tables)
            or (doubted[root.prefix] if root.prefix in doubted and doubted[root.prefix].code != UNREAD else None)
            or _unreadable(root, tables)
            or next((forked[table.uuid] for table in tables if table.uuid in forked), None)
            or doubted.get(root.prefix)
            or owners.get(root.prefix)
            or linked.get(root.prefix)
        )
        yield replace(root, refusal=reason)


def _misplaced(root: Root, state: str) -> Refusal | None:
    """A root that is a whole bucket, or that holds our own state, is never swept."""
    own = FileUri.parse(state).as_prefix()
    if not FileUri.parse(root.prefix).key.strip("/"):
        why = f"the root {root.prefix} is the top of its store"
    elif own.startswith(root.prefix) or root.prefix.startswith(own):
        why = f"the root {root.prefix} and state.location {own} lie within each other"
    else:
        return None
    return Refusal(
        "LW-ROOT-007", f"{why}; nothing under it is touched", "Give the table, or the state, a directory of its own."
    )


def _mixed(root: Root, tables: list[TableState]) -> Refusal | None:
    """Two formats in one directory: each would take the other's files for its own orphans."""
    formats = sorted({table.format for table in tables})
    if len(formats) < 2:
        return None
    message = f"{root.prefix} holds tables of two formats ({', '.join(formats)}); nothing under it is touched"
    return Refusal("LW-ROOT-004", message, "Give the tables of each format a directory of their own.")


def _unreadable(root: Root, tables: list[TableState]) -> Refusal | None:
    """All tables that touch a root are read, or it is not swept."""
    for table in tables:
        if table.refusal is not None:
            return Refusal(
                "LW-ROOT-001",
                f"{table.identifier} touches {root.prefix} and was refused ({table.refusal.code}: {table.refusal.message})",
                table.refusal.hint,
            )
    return None


def _forks(states: list[TableState]) -> dict[str, Refusal]:
    """Tables that two catalogs know by the same uuid at different metadata: two histories of one table."""
    seen: dict[str, TableState] = {}
    forks: dict[str, Refusal] = {}
    for state in states:
        other = seen.setdefault(state.uuid, state)
        if state.uuid and other.metadata_location != state.metadata_location:
            forks[state.uuid] = Refusal(
                "LW-ROOT-003",
                f"{other.identifier} and {state.identifier} are one table ({state.uuid}) at two different metadata files",
                "Drop one of the two registrations, or bring both catalogs to the same metadata file.",
            )
    return forks


def _foreign_owners(deployment: Deployment, roots: list[Root]) -> dict[str, Refusal]:
    """Roots in buckets that another deployment has claimed: its leases and heartbeats are invisible here."""
    places: dict[str, list[str]] = {}
    for root in roots:
        places.setdefault(owner_record(root.prefix), []).append(root.prefix)
    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        found = pool.map(lambda place: foreign_owner(deployment, place), places)
    return {prefix: why for place, why in zip(places, found, strict=True) if why for prefix in places[place]}
