"""What has to be copied of snapshots that aged out: their files, each once a table, looked at where they lie.

Lists are numbered by holder: an aged-out snapshot, or the live side of a table. Manifests are numbered too, so that one
which several holders name is read once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.ports import Stat
from lakewarden.model.tiers import Move
from lakewarden.model.uri import FileUri, canonical
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.plan_files import write_part
from lakewarden.pipeline.read.manifests import NOTE as NOTE_SIGN
from lakewarden.pipeline.read.manifests import error_note
from lakewarden.pipeline.read.names import KIND_CODES, KINDS
from lakewarden.storage.copying import sizes_at
from lakewarden.storage.stores import Stores

HOLDER = "holder"
COUNT, MISSING, NOTE, PART = "count", "missing", "note", "part"
# One row per fact the driver needs: counts by table, verdict and kind; parts written; notes.
FACTS = pa.schema(
    [
        ("fact", pa.string()),
        (c.TABLE, pa.int32()),
        ("verdict", pa.string()),
        (c.KIND, pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("text", pa.string()),
    ]
)
KNOWN = "known"  # in place of a verdict: a verified copy is in the cold place already
MOST_MISSING = 1000

# One row per file of a table's aged-out snapshots: whether a live ref reaches it, how large its recorded copy is.
AGED = pa.schema(
    [(c.TABLE, pa.int32()), (c.KEY, pa.string()), (c.KIND, pa.int32()), ("live", pa.bool_()), ("known", pa.int64())]
)
PAIRS = pa.schema([("number", pa.int32()), (HOLDER, pa.int32())])

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Manifests:
    """The manifests of all holders: MANIFESTS, each once and numbered; PAIRS of number and holder; notes."""

    once: pa.Table
    pairs: pa.Table
    notes: tuple[str, ...]

    @staticmethod
    def of(found: pa.Table) -> Manifests:
        """From MANIFESTS by holder."""
        is_note = pc.starts_with(found["path"], NOTE_SIGN)
        notes = tuple(found.filter(is_note)["path"].to_pylist())
        # What any live side names is certain: sorted first, it is the one that counts.
        named = found.filter(pc.invert(is_note)).sort_by("soft").combine_chunks()
        paths = pc.unique(named["path"])
        numbers = pc.index_in(named["path"], paths).combine_chunks().cast(pa.int32())
        first = named.append_column("number", numbers).append_column("place", pa.array(range(named.num_rows)))
        places = first.group_by("number").aggregate([("place", "min")]).sort_by("number")["place_min"]
        once = named.take(places)
        once = once.set_column(0, c.TABLE, pa.array(range(once.num_rows), pa.int32()))
        pairs = pa.table({"number": numbers, HOLDER: named[c.TABLE]}).cast(PAIRS)
        return Manifests(once.select(c.MANIFESTS.names).cast(c.MANIFESTS), pairs, notes)

    def holders_of(self, numbers: Sequence[int]) -> set[int]:
        wanted = pc.is_in(self.pairs["number"], pa.array(numbers, pa.int32()))
        return set(self.pairs.filter(wanted)[HOLDER].to_pylist())

    def named(self, paths: Sequence[str]) -> list[int]:
        """The numbers of these manifests."""
        here = pc.is_in(self.once["path"], pa.array(paths, pa.string()))
        return [int(number) for number in self.once.filter(here)[c.TABLE].to_pylist()]


@dataclass(frozen=True)
class Relations:
    """How manifests and files belong to tables.

    `owners`: number and table_id, of aged-out snapshots' manifests. `live`: the numbers that a live side names.
    `named`: table_id, key and kind of the files that metadata names. `live_keys`: those of live sides.
    `known`: table_id and key of the files whose copies are recorded, and the copies' sizes. `in_doubt`: some live side is unknown, so that
    every file counts as live.
    """

    owners: pa.Table
    live: pa.Array
    named: pa.Table
    live_keys: pa.Array
    known: pa.Table
    in_doubt: bool = False


def run_here(step: Callable[[Batches], Batches], rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """A task's work done in this process: for what is too small to wait for Spark."""
    return pa.Table.from_batches(step(rows.to_batches()), schema=schema)


def aged_here(marks: pa.Table, relations: Relations) -> pa.Table:
    """AGED, from MARKS by manifest number."""
    marks = marks.filter(pc.equal(marks[c.MARK], c.MARK_LIVE)).rename_columns(["number", c.KEY, c.KIND, c.MARK])
    live = pc.unique(marks.filter(pc.is_in(marks["number"], relations.live))[c.KEY])
    live = pa.concat_arrays([live.combine_chunks() if isinstance(live, pa.ChunkedArray) else live, relations.live_keys])
    mine = marks.join(relations.owners, "number", join_type="inner").select([c.TABLE, c.KEY, c.KIND])
    files = pa.concat_tables([mine, relations.named.select([c.TABLE, c.KEY, c.KIND])])
    files = files.group_by([c.TABLE, c.KEY]).aggregate([(c.KIND, "min")]).rename_columns([c.TABLE, c.KEY, c.KIND])
    files = files.join(relations.known, [c.TABLE, c.KEY], join_type="left outer")
    reached = pc.is_in(files[c.KEY], live)
    files = files.append_column("live", pc.or_(reached, relations.in_doubt))
    return files.select(AGED.names).cast(AGED)


@dataclass(frozen=True)
class LookTask:
    """What a looking task carries: the stores, the tables' names and moves, where the plan's files go.

    `taken`: by table, the cold addresses at which the copy of another file lies, each with that file.
    """

    stores: Stores
    identifiers: Mapping[int, str]
    moves: Mapping[int, Move]
    directory: str
    taken: Mapping[int, Mapping[str, str]]


def look(task: LookTask) -> Callable[[Batches], Batches]:
    """AGED in, FACTS out; PLAN_ROWS of the files to copy go to the plan's directory, their cold address as the reason."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        facts: list[dict[str, object]] = []
        for batch in batches:
            known, wanted = _told_apart(task, batch.to_pylist())
            facts += _counted(known, KNOWN)
            facts += _unmovable(wanted)
            facts += _meeting(task, wanted)
            here = list(zip(wanted, _stats(task.stores, [str(row[c.KEY]) for row in wanted]), strict=True))
            facts += _missing(row for row, stat in here if stat is None)
            planned = [_plan_row(task, row, stat) for row, stat in here if stat is not None]
            if planned:
                part = write_part(task.stores, task.directory, pa.Table.from_pylist(planned, schema=c.PLAN_ROWS))
                facts.append({"fact": PART, "text": json.dumps(asdict(part))})
                found = [{**row, c.SIZE: stat.size} for row, stat in here if stat is not None]
                facts += _counted([row for row in found if row["live"]], Verdict.LIVE)
                facts += _counted([row for row in found if not row["live"]], Verdict.PENDING)
        yield from pa.Table.from_pylist(facts, schema=FACTS).to_batches()

    return run


def _told_apart(
    task: LookTask, rows: Sequence[dict[str, object]]
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Files whose recorded copy is there with its size, and files to copy: another's rule may have taken a copy."""
    recorded = [row for row in rows if row["known"] is not None]
    sizes = sizes_at(task.stores, [_target(task, row) for row in recorded])
    gone = [row for row, size in zip(recorded, sizes, strict=True) if size != row["known"]]
    there = [row for row, size in zip(recorded, sizes, strict=True) if size == row["known"]]
    return there, [*(row for row in rows if row["known"] is None), *gone]


def _target(task: LookTask, row: Mapping[str, object]) -> str:
    return task.moves[int(str(row[c.TABLE]))](str(row[c.KEY]))


def _plan_row(task: LookTask, row: Mapping[str, object], stat: Stat) -> dict[str, object]:
    number = int(str(row[c.TABLE]))
    return {
        "uri": row[c.KEY],
        "table": task.identifiers[number],
        "verdict": str(Verdict.LIVE if row["live"] else Verdict.PENDING),
        "reason": _target(task, row),
        c.KIND: str(KINDS[int(str(row[c.KIND]))]),
        c.SIZE: stat.size,
        c.MODIFIED: stat.modified,
        c.ETAG: stat.etag,
        c.ROOT: 0,
    }


def _stats(stores: Stores, uris: Sequence[str]) -> list[Stat | None]:
    """What each address holds; None where nothing is. Any other failure is raised."""
    found: list[Stat | None] = [None] * len(uris)
    by_store: dict[int, list[int]] = {}
    for place, uri in enumerate(uris):
        by_store.setdefault(id(stores.at(uri)), []).append(place)
    for places in by_store.values():
        store = stores.at(uris[places[0]])
        answers = store.head_many([FileUri.parse(uris[place]).key for place in places])
        for place, answer in zip(places, answers, strict=True):
            if isinstance(answer, Exception):
                raise answer
            found[place] = answer
    return found


def _counted(rows: Sequence[Mapping[str, object]], verdict: str) -> list[dict[str, object]]:
    sums: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        key = int(str(row[c.TABLE])), str(KINDS[int(str(row[c.KIND]))])
        counts = sums.setdefault(key, [0, 0])
        counts[0] += 1
        counts[1] += int(str(row.get(c.SIZE, 0)))
    return [
        {"fact": COUNT, c.TABLE: table, "verdict": str(verdict), c.KIND: kind, "files": files, "bytes": size}
        for (table, kind), (files, size) in sums.items()
    ]


def _missing(rows: Iterable[Mapping[str, object]]) -> Iterator[dict[str, object]]:
    """A fact per lost file, up to a limit: what is named here is left out, and the rest is looked at again.

    Statistics only help to plan queries: a snapshot without them is whole.
    """
    counts: dict[object, int] = {}
    for row in rows:
        if row[c.KIND] == KIND_CODES[Kind.STATISTICS]:
            continue
        counts[row[c.TABLE]] = counts.get(row[c.TABLE], 0) + 1
        if counts[row[c.TABLE]] <= MOST_MISSING:
            yield {"fact": MISSING, c.TABLE: row[c.TABLE], "files": 1, "text": row[c.KEY]}


def _unmovable(rows: Sequence[Mapping[str, object]]) -> Iterator[dict[str, object]]:
    """Delete files in a format in which the addresses of data files cannot be changed."""
    for row in rows:
        if row[c.KIND] == KIND_CODES[Kind.DELETE] and str(row[c.KEY]).lower().endswith(".orc"):
            why = UnsupportedTableError("is a delete file in ORC, and the addresses in it cannot be moved")
            yield {"fact": NOTE, "text": error_note(int(str(row[c.TABLE])), why, str(row[c.KEY]))}


def _meeting(task: LookTask, rows: Sequence[Mapping[str, object]]) -> Iterator[dict[str, object]]:
    """Files whose cold address holds the copy of another one, which snapshots that were handed over need."""
    for row in rows:
        number, target = int(str(row[c.TABLE])), _target(task, row)
        if (holder := task.taken.get(number, {}).get(canonical(target))) is not None:
            why = UnsupportedTableError(f"cannot be copied: {target}, where it would go, holds the copy of {holder}")
            yield {"fact": NOTE, "text": error_note(number, why, str(row[c.KEY]))}
