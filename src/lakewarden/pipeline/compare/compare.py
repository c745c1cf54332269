"""The one question of every job: of these candidates, which does any holder need, and by which rule is each of them kept?

Asked by hashes where what is needed fits into every task, by a join in Spark where it does not; the answer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.model.kept_file import KeptFile
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare import by_join
from lakewarden.pipeline.compare.answer import ANSWER, Answer
from lakewarden.pipeline.compare.by_hash import Live, look_up_and_judge, sum_up
from lakewarden.pipeline.compare.candidates import Candidates
from lakewarden.pipeline.compare.holders import Holders
from lakewarden.pipeline.compare.needs import Named, Spark, keep_names, name_manifests, open_manifests
from lakewarden.pipeline.compare.plan_files import JudgeTask
from lakewarden.pipeline.compare.verdicts import NOT_ORDINARY
from lakewarden.pipeline.read.cache import CacheChangedError, CacheFiles
from lakewarden.pipeline.read.frames import SHARDS_A_TASK, in_tasks, shuffled_by_work, spread, stored, union
from lakewarden.pipeline.read.hashing import key_hashes
from lakewarden.pipeline.read.inventory import inventories_table, read_inventory, read_parquet
from lakewarden.pipeline.read.listing import list_shards, shards_table
from lakewarden.pipeline.read.manifests import ReadTask
from lakewarden.pipeline.read.names import CODES_BY_NAME, KIND_CODES, SOFT
from lakewarden.pipeline.read.places import Places
from lakewarden.storage.stores import Stores

# Seventeen bytes each: 68 MB in every task.
MOST_LIVE = 4_000_000

Batches = Iterable[pa.RecordBatch]
T = TypeVar("T")


@dataclass(frozen=True)
class Memory:
    """What is remembered of candidates by their address: released by an earlier expiry, called orphans by earlier plans."""

    pending: Callable[[], Iterable[Sequence[str]]] = field(default=lambda: ())
    pending_count: int = 0
    seen: pa.Array | None = None


@dataclass(frozen=True)
class Comparison:
    """Everything but the holders, the candidates and the rules: who starts Spark, who reads, what the cache knows.

    `places` are all roots of the fleet, `swept` those of the candidates. `complete`: the candidates are all files under
    the swept roots, so that one which a holder needs there and nobody listed is missing. `count_needs`: how many files
    each table needs, wherever they lie, is asked for too.
    """

    spark: Spark
    read: ReadTask
    cache: CacheFiles
    places: Places
    swept: frozenset[int]
    complete: bool = False
    count_needs: bool = False


def compare(
    holders: Holders, candidates: Candidates, rules: JudgeTask, asked: Comparison, memory: Memory | None = None
) -> Answer:
    """Judge the candidates; rows of the plan go to the directory of `rules`."""
    remembered = memory or Memory()
    named = name_manifests(asked.spark, holders, asked.read, asked.cache)
    if named.entries + remembered.pending_count <= MOST_LIVE:
        answer, missing = _by_hash(named, candidates, rules, asked, remembered)
        if not missing:
            return answer
        # Something needed was not listed, and only the join can name it. The cache has everything by now.
        joined = _by_join_whatever_the_cache_does(named, candidates, rules, asked, remembered, answer.kept)
        return replace(joined, discarded=answer.parts, touches=joined.touches | answer.touches, whole=answer.whole)
    joined = _by_join_whatever_the_cache_does(named, candidates, rules, asked, remembered, touches=True)
    return replace(joined, whole=frozenset(named.holders.tables.tolist()))


def _by_hash(
    named: Named, candidates: Candidates, rules: JudgeTask, asked: Comparison, memory: Memory
) -> tuple[Answer, int]:
    """The answer, and how many needed files no listing showed."""
    contents = open_manifests(asked.spark, named, asked.read, asked.cache, asked.places)
    summed = sum_up(named, contents, asked.places)
    counts = summed.live.counts()
    # After the metadata: whatever that no longer reaches was entered here before it was let go.
    pending = [key_hashes(pa.array(uris, pa.string())) for uris in memory.pending()]
    live = replace(summed.live.under(asked.swept), pending=np.sort(np.concatenate([np.empty(0, np.uint64), *pending])))
    if memory.seen is not None:
        live = replace(live, seen=memory.seen)
    rows = _judged(asked, candidates, live.carried(), rules)
    found = Answer.of(pa.concat_tables([ANSWER.empty_table(), *rows]))
    answer = replace(
        found.knowing({**contents.refusals, **named.refusals}, (*named.kept, *contents.kept)),
        directories=frozenset(contents.directories | named.directories),
        touches=found.touches | summed.touches,
        needed=counts,
        whole=frozenset(named.holders.tables.tolist()),
    )
    return answer, _missing(rules, live, found) if asked.complete else 0


def _judged(asked: Comparison, candidates: Candidates, live: Live, rules: JudgeTask) -> list[pa.Table]:
    stores = asked.read.stores
    sources = [
        (shards_table(list(candidates.shards)), list_shards(stores, bare=True), True),
        (inventories_table(candidates.inventories), read_inventory(stores, candidates.inventories), False),
        (_addresses(candidates.listed), read_parquet(stores, c.LISTED), False),
        (_addresses(candidates.judged), _listed_again(stores), False),
    ]
    return [
        in_tasks(
            spread(asked.spark(), rows, rows.num_rows // (SHARDS_A_TASK if bare else 1)),
            look_up_and_judge(reader, live, rules, bare=bare),
            ANSWER,
        ).toArrow()
        for rows, reader, bare in sources
        if rows.num_rows
    ]


def _addresses(uris: Sequence[str]) -> pa.Table:
    return pa.table({"uri": pa.array(uris, pa.string())})


def _listed_again(stores: Stores) -> Callable[[Batches], Batches]:
    """Addresses of PLAN_ROWS files in, LISTED out: what a second look judges anew."""

    def run(batches: Batches) -> Batches:
        for rows in read_parquet(stores, c.PLAN_ROWS)(batches):
            flags = pc.if_else(pc.equal(rows["reason"], NOT_ORDINARY), rows["reason"], pa.scalar(None, pa.string()))
            columns = {**{name: rows[name] for name in (c.ROOT, c.SIZE, c.MODIFIED, c.ETAG)}, c.KEY: rows["uri"]}
            yield pa.record_batch([(columns | {c.FLAG: flags})[name] for name in c.LISTED.names], schema=c.LISTED)

    return run


def _missing(rules: JudgeTask, live: Live, found: Answer) -> int:
    """How many files that must be there no listing showed."""
    by_name = np.array([name in rules.by_name for name in rules.identifiers], bool)
    whole = np.isin(np.arange(len(by_name)), list(rules.whole))
    data = KIND_CODES[Kind.DATA]

    def expected(tables: NDArray[np.int32], kinds: NDArray[np.int8]) -> NDArray[np.bool_]:
        must: NDArray[np.bool_] = ~by_name[tables] | (whole[tables] & (kinds != data))
        return must & (kinds < SOFT)

    seen = [
        (table, CODES_BY_NAME[kind], tally.files)
        for (table, verdict, kind), tally in found.counts.items()
        if verdict == Verdict.LIVE
    ]
    tables, kinds, files = (
        (np.array(values) for values in zip(*seen, strict=True)) if seen else (np.empty(0, np.int32),) * 3
    )
    listed = files[expected(tables.astype(np.int32), kinds.astype(np.int8))].sum() if len(files) else 0
    return int(expected(live.tables, live.kinds).sum() - listed)


def _by_join_whatever_the_cache_does(
    named: Named,
    candidates: Candidates,
    rules: JudgeTask,
    asked: Comparison,
    memory: Memory,
    kept: Sequence[KeptFile] = (),
    *,
    touches: bool = False,
) -> Answer:
    """The answer by the join; where a file of the cache changed since it was looked at, once more without the cache."""
    fresh = asked.cache

    def once(asked: Comparison) -> Answer:
        left = kept if asked.cache is fresh else ()
        return _by_join(named, candidates, rules, asked, memory, left, touches=touches)

    return whatever_the_cache_does(once, asked)


def whatever_the_cache_does(ask: Callable[[Comparison], T], asked: Comparison) -> T:
    """What `ask` answers; where a file of the cache changed since it was looked at, once more without the cache."""
    try:
        return ask(asked)
    except Exception as error:
        # A task's error comes back as Spark's, with the task's own in its text.
        if CacheChangedError.__name__ not in str(error):
            raise
    return ask(replace(asked, cache=CacheFiles(asked.cache.writer)))


def _by_join(
    named: Named,
    candidates: Candidates,
    rules: JudgeTask,
    asked: Comparison,
    memory: Memory,
    kept: Sequence[KeptFile] = (),
    *,
    touches: bool = False,
) -> Answer:
    """The answer, with every name that is needed and was not listed; `kept` was left in the cache a moment ago.

    `touches`: in which roots each table has files is asked for too. The join itself tells it of two tables a file only.
    """
    spark, stores = asked.spark(), asked.read.stores
    shuffled_by_work(spark, named.entries)
    names = keep_names(asked.spark, named, asked.read, asked.cache.plus(kept))
    marked = by_join.marks(spark, named, names, stores)
    memories = [by_join.remembered(spark, (uri for page in memory.pending() for uri in page), c.MARK_PENDING)]
    if memory.seen is not None:
        memories.append(by_join.remembered(spark, memory.seen.to_pylist(), c.MARK_SEEN))
    rows = by_join.join_and_judge(listed_rows(spark, candidates, asked), marked, rules, union(memories))
    answer = Answer.of(rows)
    if asked.count_needs:
        answer = replace(answer, needed=_needs(marked))
    if touches:
        answer = replace(answer, touches=answer.touches | _touches(marked, asked.places))
    answer = answer.knowing({**names.refusals, **named.refusals}, (*named.kept, *kept, *names.kept))
    return replace(answer, directories=names.directories | named.directories)


def _touches(marked: DataFrame, places: Places) -> set[tuple[int, int]]:
    """The roots in which each table has files that it needs, by their addresses."""
    schema = pa.schema([(c.TABLE, pa.int32()), (c.ROOT, pa.int32())])

    def pairs(batches: Batches) -> Batches:
        for batch in batches:
            found = pa.table([batch[c.TABLE], pa.array(places.roots_of(batch[c.KEY]))], schema=schema)
            yield from found.group_by([c.TABLE, c.ROOT]).aggregate([]).to_batches()

    live = marked.where(F.col(c.MARK).bitwiseAND(c.MARK_LIVE) != 0).select(c.TABLE, c.KEY)
    rows = in_tasks(live, pairs, schema).distinct().toArrow()
    return {(row[c.TABLE], row[c.ROOT]) for row in rows.to_pylist() if row[c.ROOT] >= 0}


def _needs(marked: DataFrame) -> dict[int, int]:
    """How many files each table needs, wherever they lie."""
    needed = marked.where(F.col(c.MARK).bitwiseAND(c.MARK_LIVE) != 0).select(c.TABLE, c.KEY).distinct()
    return {row[c.TABLE]: row["count"] for row in needed.groupBy(c.TABLE).count().collect()}


def listed_rows(spark: SparkSession, candidates: Candidates, asked: Comparison) -> DataFrame:
    """LISTED of all candidates."""
    stores = asked.read.stores
    found = [stored(spark, candidates.listed, c.LISTED, stores)]
    if candidates.shards:
        rows = spread(spark, shards_table(list(candidates.shards)), len(candidates.shards) // SHARDS_A_TASK)
        found.append(in_tasks(rows, list_shards(stores), c.LISTED))
    if candidates.inventories:
        rows = spread(spark, inventories_table(candidates.inventories), len(candidates.inventories))
        found.append(in_tasks(rows, read_inventory(stores, candidates.inventories), c.LISTED))
    if candidates.judged:
        rows = spread(spark, _addresses(candidates.judged), len(candidates.judged))
        found.append(in_tasks(rows, _listed_again(stores), c.LISTED))
    return union(found)
