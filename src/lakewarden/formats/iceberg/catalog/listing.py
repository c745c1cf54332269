"""Which tables a catalog has that only answers question by question: as true as its answers allow.

One listing may miss a table: a page is lost, a server has just started, a table moves into a namespace that was listed
already. So a catalog is listed until a listing names nothing new, and a table that was there before is asked for by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.model.errors import UnbelievableListingError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

THREADS = 16
MOST_LISTINGS = 6
ENOUGH_LISTINGS = 3  # to believe that a table was dropped
MOST_LOADS = 4
MOST_NAMESPACES = 100_000

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A table as its catalog answers for it."""

    location: str
    uuid: str


# Asks for one table; None if it was dropped since it was listed.
Load = Callable[[Name], Found | None]


def tables_of(catalog: Catalog, load: Load, before: Mapping[Name, Found]) -> dict[Name, Found]:
    """Every table by its name; `before` are those of the listing before this one. Raises UnbelievableListingError."""
    found: dict[Name, Found] = {}
    for number in range(1, MOST_LISTINGS + 1):
        listed = set(_listed(catalog))
        fresh = listed - found.keys()
        found |= _loaded(load, fresh | before.keys() if number == 1 else fresh)
        agreed = not fresh if number > 1 else bool(before) and before.keys() <= listed
        # A table that was there and is gone under its name and under every other: dropped, or still not shown.
        if agreed and (number >= ENOUGH_LISTINGS or not _hidden(found, before)):
            break
    else:
        raise UnbelievableListingError(
            f"catalog {catalog.name} was listed {MOST_LISTINGS} times and named other tables each time; "
            "nothing was planned or changed"
        )
    return _settled(load, found, before)


def _hidden(found: Mapping[Name, Found], before: Mapping[Name, Found]) -> bool:
    """Whether a table that was there is nowhere now: renamed, it has another name and the same uuid."""
    uuids = {one.uuid for one in found.values()}
    return any(name not in found and one.uuid not in uuids for name, one in before.items())


def _settled(load: Load, found: dict[Name, Found], before: Mapping[Name, Found]) -> dict[Name, Found]:
    """The tables, each that may have been answered for by another's answer asked for until two answers agree."""
    places = Counter(one.location for one in found.values())
    odd = [
        name
        for name, one in found.items()
        if places[one.location] > 1 or (name in before and before[name].uuid != one.uuid)
    ]
    for name in odd:
        answer: Found | None = found.pop(name)
        for _ in range(MOST_LOADS):
            again = load(name)
            if again == answer:
                break
            answer = again
        else:
            raise UnbelievableListingError(
                f"{'.'.join(name)} was another table each of the {MOST_LOADS} times that its catalog was asked for it; "
                "nothing was planned or changed"
            )
        if answer is not None:
            found[name] = answer
    return found


def _loaded(load: Load, names: Collection[Name]) -> Iterator[tuple[Name, Found]]:
    """The tables of these names, asked for side by side."""
    order = sorted(names)
    with ThreadPoolExecutor(THREADS) as pool:
        for name, one in zip(order, pool.map(load, order), strict=True):
            if one is not None:
                yield name, one


def _listed(catalog: Catalog) -> Iterator[Name]:
    for namespace in _namespaces(catalog):
        yield from catalog.list_tables(namespace)


def _namespaces(catalog: Catalog) -> Iterator[Name]:
    """Every namespace once: a server that knows no levels answers with the same ones at every level."""
    seen: set[Name] = set()
    parents: list[Name] = [()]
    while parents:
        for namespace in catalog.list_namespaces(parents.pop()):
            if namespace not in seen:
                seen.add(namespace)
                parents.append(namespace)
                yield namespace
            if len(seen) > MOST_NAMESPACES:
                raise UnbelievableListingError(
                    f"catalog {catalog.name} names more than {MOST_NAMESPACES} namespaces; nothing was planned or changed"
                )
