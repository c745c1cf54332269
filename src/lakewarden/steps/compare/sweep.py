"""From a fleet to one Spark job: which shards are listed, which lists are read, which rules judge."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.ledger.cache import CacheFile
from lakewarden.model.actor import Trigger
from lakewarden.model.errors import LakewardenError, SparkFailedError
from lakewarden.model.policy import OrphanPolicy
from lakewarden.model.ports import Shard
from lakewarden.model.roots import Claim, Root, home_of
from lakewarden.model.table import TableState
from lakewarden.model.uri import FileUri, canonical
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.hashes import MOST_LIVE, Live, key_hashes
from lakewarden.pipeline.compare.plan_files import (
    COUNT,
    EVERYWHERE,
    PART,
    PartTask,
    empty_part,
    notes_facts,
    touch_facts,
)
from lakewarden.pipeline.compare.verdicts import Ownership, Rules
from lakewarden.pipeline.read.cache import CacheWriter
from lakewarden.pipeline.read.inventory import inventory_files
from lakewarden.pipeline.read.manifests import ReadTask
from lakewarden.pipeline.read.names import CODES_BY_NAME, KIND_CODES, SOFT
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.steps.compare.confirmations import earlier_plans
from lakewarden.steps.compare.reach_cache import remember_reach, remembered_reach
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.storage.listing import discover_shards

if TYPE_CHECKING:
    from lakewarden.pipeline.compare.by_hash import Reach
    from lakewarden.pipeline.compare.by_join import Cached
    from lakewarden.pipeline.spark.session import DataFrame, SparkSession
    from lakewarden.steps.plan.document import Request

FILES_PER_SHARD = 4000
MOST_SHARDS = 64
UNKNOWN_SHARDS = 8
FEW_ROOTS = 32
GUESSED_FILES = 10_000
DISCOVERY_THREADS = 16
JAVA_TRACE = re.compile(r"\s*(at \S+\(.*\)|\.\.\. \d+ more)$")


@dataclass(frozen=True)
class Sweep:
    """What one sweep looks at: the fleet, the roots to list, the policies, the tables that may be changed."""

    fleet: Fleet
    roots: tuple[Root, ...]
    policies: Mapping[str, OrphanPolicy]
    chosen: frozenset[str]
    request: Request
    now: datetime
    session: Future[SparkSession]


def sweep_roots(deployment: Deployment, sweep: Sweep) -> pa.Table:
    """FACTS of all roots; PLAN_ROWS go to the plan's directory. The quick way where it fits, else by a join in Spark."""
    wanted = ToRead.of(enumerate(sweep.fleet.states), sweep.fleet.homes)
    shards = _shards(deployment, sweep)
    try:
        if _fits(deployment, sweep):
            facts, missing = _quick_sweep(deployment, sweep, shards, wanted)
            if not missing:
                return facts
            # Something needed was not listed. The join can name it.
            names = [json.loads(row["text"])["name"] for row in facts.to_pylist() if row["fact"] == PART]
            empty_parts(deployment, [sweep.request.directory + name for name in names])
        return _joined_sweep(deployment, sweep, shards, wanted)
    except LakewardenError:
        raise
    except Exception as error:
        raise spark_failure(error) from error


def _fits(deployment: Deployment, sweep: Sweep) -> bool:
    """Whether the live and the released files are few enough to carry, and no earlier plan has to be joined."""
    counts = sizes_of(deployment, sweep.fleet).values()
    expected = sum(GUESSED_FILES if count is None else count for count in counts)
    remembered = sweep.request.actor.trigger is Trigger.SCHEDULE
    return expected + deployment.ledger.pending.count() <= MOST_LIVE and not remembered


def _quick_sweep(deployment: Deployment, sweep: Sweep, shards: list[Shard], wanted: ToRead) -> tuple[pa.Table, int]:
    """FACTS, and how many needed files no listing showed."""
    from lakewarden.pipeline.compare import by_hash as quick

    read, part = replace(read_task(deployment), cache=None), part_task(deployment, sweep)
    own = _own_directories(sweep.fleet)
    known = remembered_reach(deployment, sweep.fleet, own)
    spark = sweep.session.result()
    fresh, notes = quick.reach(spark, wanted.without(known), own, read)
    remember_reach(deployment, sweep.fleet, own, fresh, notes)
    reached = {**known, **fresh}
    live = quick.live_under(part.prefixes, reached, wanted.named)
    # After the metadata: whatever that no longer reaches was entered here before it was let go.
    released = [key_hashes(pa.array(uris, pa.string())) for uris in deployment.ledger.pending.iter_uris()]
    live = replace(live, pending=np.sort(np.concatenate([live.pending, *released])))
    facts = quick.facts(spark, shards, _inventories(deployment, sweep), live, part, read)
    touches = touch_facts(_touches(sweep, reached))
    return pa.concat_tables([facts, notes_facts(notes), touches]), _missing(sweep, live, part, facts)


def _touches(sweep: Sweep, reached: Mapping[int, Reach]) -> set[tuple[int, int]]:
    """Tables with files in roots of others: a file that two tables need is counted for one, and must stay for both.

    Roots that are not swept are among them, so that this is all that there is to know of these tables.
    """
    roots = sorted(sweep.fleet.roots, key=lambda root: root.prefix)
    prefixes = [root.prefix for root in roots]
    found = {(number, EVERYWHERE) for number in reached}
    for number, table in reached.items():
        for key, _ in table.outside:
            at = bisect_right(prefixes, key) - 1
            if at >= 0 and key.startswith(prefixes[at]):
                found.add((number, roots[at].id))
    return found


def _missing(sweep: Sweep, live: Live, part: PartTask, facts: pa.Table) -> int:
    """How many files that must be there no listing showed."""
    by_name = np.array([state.identifier in sweep.fleet.homes for state in sweep.fleet.states], bool)
    whole = np.isin(np.arange(len(by_name)), list(part.whole))
    data = KIND_CODES[Kind.DATA]

    def expected(tables: NDArray[np.int32], kinds: NDArray[np.int8]) -> NDArray[np.bool_]:
        must: NDArray[np.bool_] = ~by_name[tables] | (whole[tables] & (kinds != data))
        return must & (kinds < SOFT)

    counts = facts.filter(pc.and_(pc.equal(facts["fact"], COUNT), pc.equal(facts["verdict"], str(Verdict.LIVE))))
    codes = np.array([CODES_BY_NAME[kind] for kind in counts[c.KIND].to_pylist()], np.int8)
    listed = counts["files"].to_numpy()[expected(counts[c.TABLE].to_numpy(), codes)].sum()
    return int(expected(live.tables, live.kinds).sum() - listed)


def _own_directories(fleet: Fleet) -> dict[int, tuple[str, ...]]:
    """Each table's outermost directories; its home, where its files are known by name."""
    numbers = fleet.numbers
    found: dict[int, list[str]] = {numbers[name]: [home] for name, home in fleet.homes.items()}
    for claim in sorted(fleet.claims, key=lambda claim: claim.prefix):
        if claim.identifier in fleet.homes:
            continue
        mine = found.setdefault(numbers[claim.identifier], [])
        if not mine or not claim.prefix.startswith(mine[-1]):
            mine.append(claim.prefix)
    return {number: tuple(prefixes) for number, prefixes in found.items()}


def _joined_sweep(deployment: Deployment, sweep: Sweep, shards: list[Shard], wanted: ToRead) -> pa.Table:
    from lakewarden.pipeline.compare import by_join as spark_sweep

    read = read_task(deployment)
    cached = usable_cache(deployment)
    spark = sweep.session.result()
    listed = spark_sweep.listing(spark, shards, read)
    if inventories := _inventories(deployment, sweep):
        listed = listed.unionByName(spark_sweep.inventory(spark, inventories, read))
    marks = spark_sweep.reached(spark, wanted, read, cached)
    return spark_sweep.facts(listed, marks, part_task(deployment, sweep), memories_of(deployment, sweep, spark))


def empty_parts(deployment: Deployment, parts: Iterable[str]) -> None:
    """Leave no row of a sweep that does not count: whoever reads files/*.parquet sees each file's last verdict only."""
    for part in parts:
        deployment.stores.put(part, empty_part())


def spark_failure(error: Exception) -> SparkFailedError:
    """What Spark named as the innermost cause; its stack trace helps nobody who only wants a plan."""
    told = [line.strip() for line in str(error).splitlines() if line.strip() and not JAVA_TRACE.match(line)]
    cause = told[-1].removeprefix("Caused by: ") if told else error
    return SparkFailedError(f"the sweep failed ({type(error).__name__}: {cause}); nothing was changed")


def read_task(deployment: Deployment) -> ReadTask:
    return ReadTask(deployment.stores, deployment.readers, CacheWriter(deployment.stores, f"{deployment.state}cache/"))


def part_task(deployment: Deployment, sweep: Sweep) -> PartTask:
    return part_task_of(deployment, sweep.fleet, sweep.roots, rules_of(deployment, sweep), sweep.request.directory)


def part_task_of(
    deployment: Deployment, fleet: Fleet, roots: Collection[Root], rules: Rules, directory: str
) -> PartTask:
    """What judging tasks need to know of these roots of a fleet."""
    names = tuple(state.identifier for state in fleet.states)
    prefixes = tuple(sorted(root.prefix for root in roots))
    homes = {root.id: home for root in roots if (home := home_of(root, fleet.homes))}
    unlisted = {name for root in fleet.roots if root not in roots for name in root.tables}
    whole = frozenset(n for name, n in fleet.numbers.items() if name in fleet.homes and name not in unlisted)
    return PartTask(deployment.stores, rules, names, directory, prefixes, homes, whole)


def rules_of(deployment: Deployment, sweep: Sweep) -> Rules:
    """The cut-off, selection and confirmation of each table by number; who owns which directory; live writers."""
    policies = [sweep.policies[state.identifier] for state in sweep.fleet.states]
    scheduled = sweep.request.actor.trigger is Trigger.SCHEDULE
    formats = sorted(deployment.readers)
    return Rules(
        owners=owners_of(sweep.fleet, sweep.fleet.claims),
        cutoffs=tuple(_micros(sweep.now - policy.grace) for policy in policies),
        selected=tuple(state.identifier in sweep.chosen for state in sweep.fleet.states),
        confirm=tuple(scheduled and policy.confirmations > 1 for policy in policies),
        writer_prefixes={
            number: state.writer_prefixes for number, state in enumerate(sweep.fleet.states) if state.writer_prefixes
        },
        heartbeats=tuple(deployment.ledger.heartbeats.live(sweep.now)),
        names=tuple(deployment.readers[name].names for name in formats),
        formats=tuple(formats.index(state.format) for state in sweep.fleet.states),
    )


def release_rules(deployment: Deployment, fleet: Fleet, selected: Collection[str], *, only: int = 0) -> Rules:
    """How files are judged that metadata has named: needed or not, whatever their age and name.

    In a directory that tables share, a file is a selected one's: the others release nothing, and would hide it.
    """
    formats = sorted(deployment.readers)
    count = len(fleet.states)
    return Rules(
        owners=owners_of(fleet, [claim for claim in fleet.claims if claim.identifier in selected]),
        cutoffs=(0,) * count,
        selected=tuple(state.identifier in selected for state in fleet.states),
        confirm=(False,) * count,
        names=tuple(deployment.readers[name].names for name in formats),
        formats=tuple(formats.index(state.format) for state in fleet.states),
        changing=Verdict.PENDING,
        only=only,
    )


def owners_of(fleet: Fleet, of: Collection[Claim]) -> dict[int, tuple[Ownership, ...]]:
    """Whose directories lie in each root, of these, deepest first."""
    numbers = fleet.numbers
    owners: dict[int, tuple[Ownership, ...]] = {}
    claims = iter(sorted(of, key=lambda claim: claim.prefix))
    claim = next(claims, None)
    for root in sorted(fleet.roots, key=lambda root: root.prefix):
        inside = []
        while claim is not None and claim.prefix.startswith(root.prefix):
            inside.append(Ownership(claim.prefix, numbers[claim.identifier]))
            claim = next(claims, None)
        owners[root.id] = tuple(sorted(inside, key=lambda o: (-o.prefix.count("/"), o.prefix)))
    return owners


def usable_cache(deployment: Deployment) -> Cached:
    """Cache files that are still as long as they were when their rows were proven."""
    from lakewarden.pipeline.compare.by_join import Cached

    files = [*deployment.ledger.cache.files("list"), *deployment.ledger.cache.files("manifest")]
    with ThreadPoolExecutor(DISCOVERY_THREADS) as pool:
        whole = [file for file, ok in zip(files, pool.map(lambda f: _whole(deployment, f), files), strict=True) if ok]
    return Cached(
        [file.uri for file in whole if file.kind == "list"], [file.uri for file in whole if file.kind == "manifest"]
    )


def _whole(deployment: Deployment, file: CacheFile) -> bool:
    found = deployment.stores.head(file.uri)
    return found is not None and found.size == file.bytes


def memories_of(deployment: Deployment, sweep: Sweep, spark: SparkSession) -> DataFrame | None:
    """MARKS by address: files that an expiry released, and orphans that an earlier plan saw already."""
    from lakewarden.pipeline.compare import by_join as spark_sweep

    marks = None
    if deployment.ledger.pending.count():
        marks = spark_sweep.pending(spark, deployment.ledger.pending.iter_uris())
    scheduled = sweep.request.actor.trigger is Trigger.SCHEDULE
    if scheduled and (plans := earlier_plans(deployment, sweep.policies.values(), sweep.now)):
        times = {name: policy.confirmations - 1 for name, policy in sweep.policies.items()}
        seen = spark_sweep.seen(spark, plans, times, ReadTask(deployment.stores, deployment.readers))
        marks = marks.unionByName(seen) if marks is not None else seen
    return marks


def _shards(deployment: Deployment, sweep: Sweep) -> list[Shard]:
    inventories = tuple(inventory_prefixes(deployment))
    return list(
        shards_of(deployment, sweep.fleet, [root for root in sweep.roots if not root.prefix.startswith(inventories)])
    )


def shards_of(deployment: Deployment, fleet: Fleet, listed: Collection[Root]) -> Iterator[Shard]:
    """Shards of every root that is listed: many for a large table, one (and no call to the store) for a small one."""
    sizes = sizes_of(deployment, fleet)
    few = len(listed) < FEW_ROOTS

    def cut(root: Root) -> list[Shard]:
        files = [sizes[name] for name in root.tables]
        known = sum(count for count in files if count is not None)
        target = min(MOST_SHARDS, known // FILES_PER_SHARD + 1)
        if few:
            target = max(target, UNKNOWN_SHARDS)
        return discover_shards(deployment.stores, root.id, root.prefix, target)

    with ThreadPoolExecutor(DISCOVERY_THREADS) as pool:
        for shards in pool.map(cut, listed):
            yield from shards


def sizes_of(deployment: Deployment, fleet: Fleet) -> dict[str, int | None]:
    """How many files each table has: as its metadata says, else as the last plan saw it, else None."""
    last = deployment.ledger.reach.last()
    return {
        s.identifier: last[s.identifier].live_files if (n := _files_in(s)) is None and s.identifier in last else n
        for s in fleet.states
    }


def _files_in(state: TableState) -> int | None:
    """How many data files the table's snapshots speak of, at least; None if they do not say."""
    counts = [item.data_files for item in state.manifest_lists]
    return None if None in counts else max((count for count in counts if count is not None), default=0)


def inventory_prefixes(deployment: Deployment) -> list[str]:
    return [FileUri.parse(prefix).as_prefix() for prefix in deployment.inventory]


def _inventories(deployment: Deployment, sweep: Sweep) -> list[tuple[str, list[Root]]]:
    """Each inventory with the swept roots that it stands for."""
    found = []
    for prefix, uri in deployment.inventory.items():
        within = FileUri.parse(prefix).as_prefix()
        roots = [root for root in sweep.roots if root.prefix.startswith(within)]
        if roots:
            found += [(file, roots) for file in inventory_files(deployment.stores, canonical(uri))]
    return found


def _micros(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000)
