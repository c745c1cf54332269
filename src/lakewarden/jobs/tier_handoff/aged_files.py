"""Which files aged-out snapshots need, and whether they are still there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.jobs.tier_handoff.aged_out import AgedOut
from lakewarden.jobs.tier_handoff.cold_place import address_taken, taken
from lakewarden.jobs.tier_handoff.look import LISTS, LOOKED, LookTask, look
from lakewarden.model.errors import (
    IncompleteManifestError,
    LakewardenError,
    Refusal,
    UnreadableMetadataError,
    UnsupportedTableError,
)
from lakewarden.model.kept_file import KeptFile
from lakewarden.model.plan import PartFile, Tally, add_tallies
from lakewarden.model.table import Hold, Holder, ReachedFile
from lakewarden.model.tiers import AgedSnapshot
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.answer import added_up, part_files
from lakewarden.pipeline.compare.holders import Holders, TableHolders
from lakewarden.pipeline.compare.needs import Named, keep_names, name_manifests
from lakewarden.pipeline.compare.released import COPIES, Here, InSpark, Released
from lakewarden.pipeline.read.to_read import table_of
from lakewarden.steps.compare.compare import empty_parts, read_task
from lakewarden.steps.compare.manifest_cache import cache_files, remember
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark
from lakewarden.steps.observe.fleet import Fleet

if TYPE_CHECKING:
    from lakewarden.pipeline.spark.session import SparkSession

# Up to so much is read and looked at before a Spark session has begun.
FEW_MANIFESTS = 256
FEW_ENTRIES = 200_000
LOOKS = 10

_TOO_MANY = UnreadableMetadataError(
    f"so many files of its expired snapshots are gone that {LOOKS} looks did not find them all; "
    "nothing of it is handed over"
).refusal()

Lost = dict[int, dict[int, str]]  # by table and snapshot, a file that is gone


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
        self.in_doubt = everything and any(state.refusal for state in fleet.states)
        self.live = tuple(self._live_sides(range(len(fleet.states)) if everything else waiting))
        self.kept: list[KeptFile] = []
        self.used: set[str] = set()

    def files(self) -> AgedFiles:
        """What is to be copied, of the snapshots that are whole."""
        found = in_spark(self._looked)
        remember(self.deployment, self.kept, self.used)
        return found

    def _looked(self) -> AgedFiles:
        lost: Lost = {}
        found = AgedFiles()
        for _ in range(LOOKS):
            empty_parts(self.deployment, [self.directory + part.name for part in found.parts])
            found, missing = self._look(lost)
            if not missing:
                return replace(found, lost=lost)
            for number, gone in missing.items():
                lost.setdefault(number, {}).update(gone)
        # The last look still found holes: what it counted is not whole, and more may be missing.
        return replace(found, lost=lost, refusals={**dict.fromkeys(missing, _TOO_MANY), **found.refusals})

    def _look(self, lost: Lost) -> tuple[AgedFiles, Lost]:
        """What is there of the snapshots that lost nothing so far, and what these have lost."""
        aged = [
            (number, snapshot)
            for number, waits in self.waiting.items()
            for snapshot in waits.snapshots
            if snapshot.snapshot_id not in lost.get(number, ())
        ]
        before = [(number, self.fleet.states[number], (_holder(snapshot),)) for number, snapshot in aged]
        named, files, refusals = self._read(Holders.of(self.live, self.fleet.homes, before))
        told = added_up(files.each(look(self._task), LOOKED, self._copies, in_doubt=self.in_doubt), LISTS)
        missing = self._snapshots_with(told["lost"], aged, named, files) if told["lost"] else {}
        return _counted(told, {**_gone(told["lost"], missing), **refusals, **_refused(told)}), missing

    def _read(self, holders: Holders) -> tuple[Named, Released, dict[int, Refusal]]:
        """What the holders need, and the tables of which something could not be read."""
        read, cache = read_task(self.deployment), cache_files(self.deployment).plus(self.kept)
        named = name_manifests(self._spark, holders, read, cache)
        few = named.entries <= FEW_ENTRIES and named.once.num_rows <= FEW_MANIFESTS
        names = keep_names(self._spark, named, read, cache, few=FEW_MANIFESTS if few else None)
        self.kept += (*named.kept, *names.kept)
        self.used |= cache.used
        refusals: dict[int, Refusal] = {}
        for number, why in (*named.refusals.items(), *names.refusals.items()):
            # A live side that is unknown may need any table's files.
            for refused in [number] if number in self.waiting else self.waiting:
                refusals.setdefault(refused, why)
        if few:
            return named, Here(named, names, read.stores), refusals
        return named, InSpark(self._spark(), named, names, read.stores), refusals

    def _spark(self) -> SparkSession:
        return self.deployment.warm_spark().result()

    def _live_sides(self, numbers: Iterable[int]) -> Iterator[TableHolders]:
        """What live refs need of each table that can be read, and whose files are known by their addresses."""
        for number in numbers:
            state = self.fleet.states[number]
            if not state.refusal and not self.deployment.readers[state.format].by_name:
                lists = tuple(item for item in state.manifest_lists if not item.soft)
                manifests = tuple(item for item in state.manifests if not item.soft)
                yield number, state, (Holder(Hold.ALL, lists, manifests, state.files),)

    @cached_property
    def _task(self) -> LookTask:
        states = {number: self.fleet.states[number] for number in self.waiting}
        moves = {number: waits.move for number, waits in self.waiting.items()}
        return LookTask(
            self.deployment.stores,
            {number: state.identifier for number, state in states.items()},
            moves,
            self.directory,
            {number: taken(self.deployment.ledger, state.uuid, moves[number]) for number, state in states.items()},
        )

    @cached_property
    def _copies(self) -> pa.Table:
        """COPIES: what the ledger has at the addresses where these tables' files go."""
        rows = [
            (number, file.uri, file.size)
            for number, waits in self.waiting.items()
            for page in self.deployment.ledger.cold.of(self.fleet.states[number].uuid)
            for file in page
            if canonical(waits.move(file.uri)) == file.cold_uri
        ]
        return table_of(rows, COPIES)

    def _snapshots_with(
        self, lost: Sequence[Mapping[str, Any]], aged: Sequence[tuple[int, AgedSnapshot]], named: Named, files: Released
    ) -> Lost:
        """By table, the snapshots that need a file which is gone, each with one such file."""
        examples = {row[c.TABLE]: row[c.KEY] for row in reversed(lost)}
        keys = {row[c.KEY] for row in lost}
        paths = pa.array({*keys, *files.manifests_naming(sorted(keys))}, pa.string())
        held = set(named.opened.filter(pc.is_in(named.opened["path"], paths))[c.TABLE].to_pylist())
        found: Lost = {}
        for holder, (number, snapshot) in enumerate(aged, start=len(self.live)):
            if number in examples and (holder in held or canonical(snapshot.manifest_list.uri) in keys):
                found.setdefault(number, {})[snapshot.snapshot_id] = examples[number]
        return found


def _holder(snapshot: AgedSnapshot) -> Holder:
    """Soft: a list that is gone is found by looking, and loses only its own snapshot."""
    item = replace(snapshot.manifest_list, soft=True)
    statistics = (ReachedFile(uri, Kind.STATISTICS) for uri in snapshot.statistics)
    return Holder(Hold.ALL, (item,), files=(ReachedFile(item.uri, Kind.MANIFEST_LIST), *statistics))


def _gone(lost: Sequence[Mapping[str, Any]], missing: Lost) -> dict[int, Refusal]:
    """A file that is gone and whose snapshots are not found would leave a hole that nobody knows of."""
    why = "is gone, and which of its expired snapshots need it is not known; nothing of it is handed over"
    return {
        row[c.TABLE]: UnreadableMetadataError(f"{row[c.KEY]} {why}").refusal()
        for row in lost
        if row[c.TABLE] not in missing
    }


def _refused(told: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[int, Refusal]:
    """Tables with files that cannot be copied."""
    orc = "is a delete file in ORC, and the addresses in it cannot be moved"
    found: list[tuple[int, LakewardenError]] = [
        *((row[c.TABLE], UnsupportedTableError(f"{row[c.KEY]} {orc}")) for row in told["unmovable"]),
        *((row[c.TABLE], IncompleteManifestError(_cut(row))) for row in told["cut"]),
        *((row[c.TABLE], address_taken(row[c.KEY], row["target"], row["holder"])) for row in told["taken"]),
    ]
    return {
        number: Refusal(error.code, f"{error.message}; nothing of this table is touched", error.hint)
        for number, error in found
    }


def _cut(row: Mapping[str, Any]) -> str:
    return f"{row[c.KEY]} has {row[c.SIZE]} bytes where its list says {row['length']}"


def _counted(told: Mapping[str, Sequence[Mapping[str, Any]]], refusals: Mapping[int, Refusal]) -> AgedFiles:
    kinds: dict[int, dict[str, Tally]] = {}
    for row in told["counts"]:
        tally = {row[c.KIND]: Tally(row["files"], row["bytes"] or 0)}
        kinds[row[c.TABLE]] = add_tallies(kinds.get(row[c.TABLE], {}), tally)
    known = {row[c.TABLE]: row["files"] for row in told["known"]}
    return AgedFiles(kinds, known, {}, refusals, part_files(told["parts"]))
