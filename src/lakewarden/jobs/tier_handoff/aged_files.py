"""Which files aged-out snapshots need, and whether they are still there: read here where they are few, else in Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.jobs.tier_handoff.aged_out import AgedOut
from lakewarden.jobs.tier_handoff.cold_place import taken
from lakewarden.model.errors import LakewardenError, Refusal, UnreadableMetadataError
from lakewarden.model.plan import PartFile, Tally, add_tallies
from lakewarden.model.tiers import AgedSnapshot
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.aged import (
    COUNT,
    FACTS,
    KNOWN,
    MISSING,
    NOTE,
    PART,
    LookTask,
    Manifests,
    Relations,
    aged_here,
    look,
    run_here,
)
from lakewarden.pipeline.read.manifests import note_refusal, read_lists, read_manifests
from lakewarden.pipeline.read.names import KIND_CODES
from lakewarden.pipeline.read.to_read import table_of
from lakewarden.steps.compare.compare import read_task
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import spark_failure
from lakewarden.steps.observe.fleet import Fleet

if TYPE_CHECKING:
    from lakewarden.pipeline.spark.session import SparkSession

FEW_LISTS = 64
FEW_ENTRIES = 200_000
LOOKS = 10

NAMED = pa.schema([(c.TABLE, pa.int32()), (c.KEY, pa.string()), (c.KIND, pa.int32())])
OWNERS = pa.schema([("number", pa.int32()), (c.TABLE, pa.int32())])
KNOWN_ROWS = pa.schema([(c.TABLE, pa.int32()), (c.KEY, pa.string()), ("known", pa.int64())])


def _gone(uri: str) -> Refusal:
    why = f"{uri} is gone, and which of its expired snapshots need it is not known; nothing of it is handed over"
    return UnreadableMetadataError(why).refusal()


_TOO_MANY = UnreadableMetadataError(
    f"so many files of its expired snapshots are gone that {LOOKS} looks did not find them all; "
    "nothing of it is handed over"
).refusal()


@dataclass(frozen=True)
class AgedFiles:
    """By table number: files to copy by kind, how many are cold already, snapshots that lost files, refusals."""

    kinds: Mapping[int, Mapping[str, Tally]] = field(default_factory=dict)
    known: Mapping[int, int] = field(default_factory=dict)
    lost: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    refusals: Mapping[int, Refusal] = field(default_factory=dict)
    parts: tuple[PartFile, ...] = ()


class Survey:
    """One look at what waits in a fleet. `everything`: whether every table's live side counts, or only the waiting ones'."""

    def __init__(
        self, deployment: Deployment, fleet: Fleet, waiting: Mapping[int, AgedOut], directory: str, *, everything: bool
    ) -> None:
        self.deployment = deployment
        self.fleet = fleet
        self.waiting = waiting
        self.directory = directory
        self.read = read_task(deployment)
        live = range(len(fleet.states)) if everything else waiting
        self.in_doubt = everything and any(state.refusal for state in fleet.states)
        self.live = [
            n for n in live if not fleet.states[n].refusal and not deployment.readers[fleet.states[n].format].by_name
        ]

    def files(self) -> AgedFiles:
        """What is to be copied, of the snapshots that are whole."""
        lost: dict[int, dict[int, str]] = {}
        try:
            for _ in range(LOOKS):
                found, missing = self._look({n: frozenset(gone) for n, gone in lost.items()})
                if not missing:
                    break
                for number, gone in missing.items():
                    lost.setdefault(number, {}).update(gone)
            else:
                # The last look still found holes: what it counted is not whole, and more may be missing.
                found = replace(found, refusals={**dict.fromkeys(missing, _TOO_MANY), **found.refusals})
        except LakewardenError:
            raise
        except Exception as error:
            raise spark_failure(error) from error
        return replace(found, lost=lost)

    @cached_property
    def spark(self) -> SparkSession:
        return self.deployment.warm_spark().result()

    def _look(self, without: Mapping[int, Collection[int]]) -> tuple[AgedFiles, dict[int, dict[int, str]]]:
        holders = [
            (number, snapshot)
            for number, aged in self.waiting.items()
            for snapshot in aged.snapshots
            if snapshot.snapshot_id not in without.get(number, ())
        ]
        manifests = self._manifests(self._lists(holders))
        relations = self._relations(holders, manifests)
        moves = {number: aged.move for number, aged in self.waiting.items()}
        names = {number: self.fleet.states[number].identifier for number in self.waiting}
        task = LookTask(self.deployment.stores, names, moves, self.directory, self._taken)
        few = (pc.sum(manifests.once["rows"]).as_py() or 0) <= FEW_ENTRIES and manifests.once.num_rows <= 4 * FEW_LISTS
        marks: Any
        if few:
            marks = run_here(read_manifests(self.read), manifests.once, c.MARKS)
            notes = marks.filter(pc.equal(marks[c.MARK], c.MARK_NOTE))[c.KEY].to_pylist()
            facts = run_here(look(task), aged_here(marks, relations), FACTS).to_pylist()
        else:
            from lakewarden.pipeline.compare import aged_in_spark as spark_side

            marks = spark_side.marks_in_spark(self.spark, manifests.once, self.read)
            notes = spark_side.notes_in_spark(marks)
            facts = spark_side.look_in_spark(self.spark, marks, relations, task).to_pylist()
        refusals = self._refusals(holders, manifests, notes)
        refusals |= {json.loads(f["text"][1:])["table"]: note_refusal(f["text"]) for f in facts if f["fact"] == NOTE}
        gone = [(fact[c.TABLE], fact["text"]) for fact in facts if fact["fact"] == MISSING]
        missing = self._snapshots_with(gone, holders, manifests, marks, few=few) if gone else {}
        # A file that is gone and whose snapshots are not found would leave a hole that nobody knows of.
        refusals = {**{number: _gone(uri) for number, uri in gone if number not in missing}, **refusals}
        if not few:
            marks.unpersist()
        return _counted(facts, refusals), missing

    def _lists(self, holders: Sequence[tuple[int, AgedSnapshot]]) -> pa.Table:
        """LISTS by holder: the snapshots first, then one holder for each live side."""
        rows: list[tuple[object, ...]] = []
        for holder, (number, snapshot) in enumerate(holders):
            item = snapshot.manifest_list
            # Soft: one that is gone is found by looking, and only its own snapshot is lost.
            rows.append(
                (
                    holder,
                    self.fleet.states[number].format,
                    item.uri,
                    True,
                    item.data_files,
                    item.delete_files,
                    None,
                    None,
                )
            )
        for holder, number in enumerate(self.live, start=len(holders)):
            state = self.fleet.states[number]
            rows += [
                (holder, state.format, item.uri, False, item.data_files, item.delete_files, item.length, None)
                for item in state.manifest_lists
                if not item.soft
            ]
        return table_of(rows, c.LISTS)

    def _manifests(self, lists: pa.Table) -> Manifests:
        if lists.num_rows <= FEW_LISTS:
            return Manifests.of(run_here(read_lists(self.read), lists, c.MANIFESTS))
        from lakewarden.pipeline.compare.aged_in_spark import manifests_in_spark

        return Manifests.of(manifests_in_spark(self.spark, lists, self.read).cast(c.MANIFESTS))

    def _relations(self, holders: Sequence[tuple[int, AgedSnapshot]], manifests: Manifests) -> Relations:
        pairs = set(zip(*(manifests.pairs[name].to_pylist() for name in ("number", "holder")), strict=True))
        owners = sorted({(number, holders[holder][0]) for number, holder in pairs if holder < len(holders)})
        live = sorted({number for number, holder in pairs if holder >= len(holders)})
        paths = manifests.once["path"].to_pylist()
        named = [(table, paths[number], KIND_CODES[Kind.MANIFEST]) for number, table in owners]
        named += [
            (number, canonical(snapshot.manifest_list.uri), KIND_CODES[Kind.MANIFEST_LIST])
            for number, snapshot in holders
        ]
        named += [
            (number, canonical(uri), KIND_CODES[Kind.STATISTICS])
            for number, snapshot in holders
            for uri in snapshot.statistics
        ]
        states = [self.fleet.states[number] for number in self.live]
        reached = [item.uri for state in states for item in state.manifest_lists if not item.soft]
        reached += [file.uri for state in states for file in state.files]
        return Relations(
            owners=table_of(owners, OWNERS),
            live=pa.array(live, pa.int32()),
            named=table_of(named, NAMED),
            live_keys=pa.array([canonical(uri) for uri in reached], pa.string()),
            known=self._known,
            in_doubt=self.in_doubt,
        )

    @cached_property
    def _taken(self) -> dict[int, dict[str, str]]:
        uuids = {number: self.fleet.states[number].uuid for number in self.waiting}
        return {n: taken(self.deployment.ledger, uuids[n], aged.move) for n, aged in self.waiting.items()}

    @cached_property
    def _known(self) -> pa.Table:
        """KNOWN_ROWS: the copies that the ledger has at the addresses where these tables' files go."""
        rows = [
            (number, file.uri, file.size)
            for number, aged in self.waiting.items()
            for page in self.deployment.ledger.cold.of(self.fleet.states[number].uuid)
            for file in page
            if canonical(aged.move(file.uri)) == file.cold_uri
        ]
        return table_of(rows, KNOWN_ROWS)

    def _refusals(
        self, holders: Sequence[tuple[int, AgedSnapshot]], manifests: Manifests, notes: Sequence[str]
    ) -> dict[int, Refusal]:
        """Tables of which something could not be read. A live side that is unknown may need any table's files."""

        def tables(held: Collection[int]) -> Iterator[int]:
            for holder in held:
                yield holders[holder][0] if holder < len(holders) else self.live[holder - len(holders)]

        told = [(note, tables([json.loads(note[1:])["table"]])) for note in manifests.notes]
        told += [(note, tables(manifests.holders_of([json.loads(note[1:])["table"]]))) for note in notes]
        found: dict[int, Refusal] = {}
        for note, numbers in told:
            for number in numbers:
                for refused in [number] if number in self.waiting else self.waiting:
                    found.setdefault(refused, note_refusal(note))
        return found

    def _snapshots_with(
        self,
        gone: Sequence[tuple[int, str]],
        holders: Sequence[tuple[int, AgedSnapshot]],
        manifests: Manifests,
        marks: Any,
        *,
        few: bool,
    ) -> dict[int, dict[int, str]]:
        """By table, the snapshots that need a file which is gone, each with one such file."""
        keys = [key for _, key in gone]
        numbers = manifests.named(keys)
        if few:
            numbers += marks.filter(pc.is_in(marks[c.KEY], pa.array(keys, pa.string())))[c.TABLE].to_pylist()
        else:
            from lakewarden.pipeline.compare.aged_in_spark import manifests_naming

            numbers += manifests_naming(self.spark, marks, keys)
        held = manifests.holders_of(numbers)
        held |= {h for h, (_, snapshot) in enumerate(holders) if canonical(snapshot.manifest_list.uri) in set(keys)}
        examples = {number: key for number, key in reversed(gone)}
        found: dict[int, dict[int, str]] = {}
        for holder in sorted(held):
            if holder < len(holders) and holders[holder][0] in examples:
                number, snapshot = holders[holder]
                found.setdefault(number, {})[snapshot.snapshot_id] = examples[number]
        return found


def _counted(facts: Sequence[Mapping[str, Any]], refusals: Mapping[int, Refusal]) -> AgedFiles:
    kinds: dict[int, dict[str, Tally]] = {}
    known: dict[int, int] = {}
    for fact in facts:
        number = fact[c.TABLE]
        if fact["fact"] == COUNT and fact["verdict"] == KNOWN:
            known[number] = known.get(number, 0) + fact["files"]
        elif fact["fact"] == COUNT:
            tally = Tally(fact["files"], fact["bytes"] or 0)
            kinds[number] = add_tallies(kinds.get(number, {}), {fact[c.KIND]: tally})
    parts = [PartFile(**json.loads(fact["text"])) for fact in facts if fact["fact"] == PART]
    return AgedFiles(kinds, known, {}, refusals, tuple(sorted(parts, key=lambda part: part.name)))
