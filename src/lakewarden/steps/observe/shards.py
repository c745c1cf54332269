"""How the roots are listed: cut into shards that tasks list side by side, or told by an inventory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from lakewarden.model.ports import Shard
from lakewarden.model.roots import Root
from lakewarden.model.table import TableState
from lakewarden.model.uri import FileUri, canonical
from lakewarden.pipeline.compare.candidates import Candidates
from lakewarden.pipeline.read.inventory import inventory_files
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.storage.listing import discover_shards

FILES_PER_SHARD = 4000
# Finding a boundary costs a call or more, one after the other: beyond so many shards each has to be worth it.
EASY_SHARDS = 64
FILES_PER_LATER_SHARD = 50_000
UNKNOWN_SHARDS = 8
FEW_ROOTS = 32
DISCOVERY_THREADS = 16


def listing_of(deployment: Deployment, fleet: Fleet, roots: Collection[Root], *, inventories: bool) -> Candidates:
    """Every file under these roots; with `inventories`, those that one covers are not listed."""
    covered = {FileUri.parse(prefix).as_prefix(): uri for prefix, uri in deployment.inventory.items()}
    if not inventories or not covered:
        return Candidates(shards=tuple(shards_of(deployment, fleet, roots)))
    listed = [root for root in roots if not root.prefix.startswith(tuple(covered))]
    return Candidates(
        shards=tuple(shards_of(deployment, fleet, listed)),
        inventories=tuple(_inventories(deployment, covered, sorted(roots, key=lambda root: root.prefix))),
    )


def _inventories(
    deployment: Deployment, covered: dict[str, str], roots: list[Root]
) -> Iterator[tuple[str, tuple[Root, ...]]]:
    """Each file of each inventory with the roots that it stands for, in order of their prefixes."""
    prefixes = [root.prefix for root in roots]
    for within, uri in covered.items():
        # A prefix ends in a slash, so what lies within it is before the same with the character after the slash.
        mine = tuple(roots[bisect_left(prefixes, within) : bisect_left(prefixes, within[:-1] + "0")])
        if mine:
            for file in inventory_files(deployment.stores, canonical(uri)):
                yield file, mine


def shards_of(deployment: Deployment, fleet: Fleet, listed: Collection[Root]) -> Iterator[Shard]:
    """Shards of every root that is listed: many for a large table, one (and no call to the store) for a small one."""
    sizes = sizes_of(fleet)
    few = len(listed) < FEW_ROOTS

    def cut(root: Root) -> list[Shard]:
        files = [sizes[name] for name in root.tables]
        known = sum(count for count in files if count is not None)
        target = min(known // FILES_PER_SHARD, EASY_SHARDS + known // FILES_PER_LATER_SHARD) + 1
        if few:
            target = max(target, UNKNOWN_SHARDS)
        return discover_shards(deployment.stores, root.id, root.prefix, target)

    with ThreadPoolExecutor(DISCOVERY_THREADS) as pool:
        for shards in pool.map(cut, listed):
            yield from shards


def sizes_of(fleet: Fleet) -> dict[str, int | None]:
    """How many files each table has: as its metadata says, else as an earlier plan saw it, else None."""
    found: dict[str, int | None] = {}
    for state in fleet.states:
        told = _files_in(state)
        known = fleet.memory.of(state) if told is None else None
        found[state.identifier] = known.live_files if known else told
    return found


def _files_in(state: TableState) -> int | None:
    """How many data files the table's snapshots speak of, at least; None if they do not say."""
    counts = [item.data_files for item in state.manifest_lists]
    return None if None in counts else max((count for count in counts if count is not None), default=0)
