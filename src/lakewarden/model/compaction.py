"""Which files of a partition become fewer, and what that is worth. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import groupby
from math import ceil
from typing import Any, Protocol

from lakewarden.model.engine_group import EngineGroup
from lakewarden.model.errors import LakewardenError, Refusal
from lakewarden.model.ports import Blobs, ReadAvro, Rows
from lakewarden.model.table import ManifestList, NamedManifest, Pointer, TableState
from lakewarden.model.worth import Worth

# A file below this share of the target is small; one above the other share is cut in two.
SMALL, LARGE = 0.75, 1.8
# Level 0 is below a quarter of the target. Files of one level are rewritten together, so that no row moves at every run.
LEVELS = (0.25, SMALL)
SMALL_FILES, DELETES = "small files", "deletes"
# A file is rewritten for its deletes alone from this share of its rows on.
DELETED_SHARE = 0.2
# So many files of deletes, or more, that apply to one data file are a reason to rewrite it, however large it is.
MANY_DELETES = 10
# A group's bytes are at most so many targets: what one task reads and writes. So are its files, and the deletes that its
# task has to hold; one file to which more apply is a group by itself.
GROUP_TARGETS = 2
GROUP_FILES = 10_000
GROUP_DELETES = 1_000
# What a task spends on opening a small file, in bytes that it could have rewritten meanwhile.
OPENING = 16 << 10
MAIN = "main"
# What a run notes of its groups: those of one commit, and one that it leaves as it is.
COMPACTED, GROUP_LEFT = "compacted", "group left"


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """What a table's owner wants of compaction."""

    enabled: bool
    dry_run: bool
    target_file_size_bytes: int | None
    strategy: str
    min_input_files: int
    max_bytes_per_run: int
    bandwidth_share: float
    lease_ttl_seconds: int
    many_deletes: int = MANY_DELETES
    settle_minutes: int = 0
    rate_bytes_per_second: int = 0
    branch: str = MAIN
    zorder_columns: str = ""

    @staticmethod
    def of(values: Mapping[str, Any]) -> CompactionPolicy:
        """The policy that these values of `[compaction]` spell, under the user's names and units."""
        return CompactionPolicy(**{found.name: values[found.name] for found in fields(CompactionPolicy)})

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names and units, as a plan records it."""
        return {name: value for name, value in asdict(self).items() if name != "enabled"}


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A live data file of one partition. `deleted` are the rows that position deletes and vectors take from it alone.

    `own` are the files of deletes that are about it alone, `shared` those that apply to it and may apply to others: equality
    deletes, and position deletes of several files. `delete_bytes` are the bytes of both. `place` is its place among the
    files of the partition where their order is the order of rows: one more than that of the file before it, if nothing lies
    between the two that has to stay.
    """

    path: str
    size: int
    rows: int
    deleted: int = 0
    own: int = 0
    shared: int = 0
    delete_bytes: int = 0
    place: int = 0

    @property
    def size_after(self) -> int:
        """About how large it is without the rows that are deleted by position."""
        return self.size * (self.rows - self.deleted) // self.rows if self.rows > 0 else self.size


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that are rewritten together, and why."""

    files: tuple[PartitionFile, ...]
    reason: str

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def outputs(self, target: int) -> int:
        """How many files the group becomes: as few as can be without one that is too large."""
        return outputs_of(self.bytes, target)

    def worth(self, target: int) -> Worth:
        """What the group costs, and what it saves."""
        after = self.outputs(target)
        return Worth(
            groups=1,
            files=len(self.files),
            files_after=after,
            bytes=self.bytes,
            written_bytes=sum(file.size_after for file in self.files),
            requests=len(self.files) - after + sum(file.own + file.shared for file in self.files),
            delete_bytes=sum(file.delete_bytes for file in self.files),
        )

    def fills_a_file(self, target: int) -> bool:
        """Whether small files are enough for one that no later plan rewrites, whatever is still added beside it."""
        return self.reason.startswith(SMALL_FILES) and self.bytes >= SMALL * target

    @property
    def name(self) -> str:
        """The same for the same files, in whatever order: what a lease is held on."""
        joined = "\n".join(sorted(file.path for file in self.files))
        return hashlib.sha256(joined.encode()).hexdigest()[:16]


def outputs_of(size: int, target: int) -> int:
    """Into how many files so many bytes go."""
    return max(1, ceil(size / (LARGE * target)))


def roll_size(size: int, target: int) -> int:
    """At which size a file is ended, so that so many bytes become files of about the same size."""
    count = outputs_of(size, target)
    return ceil(size / count) if count > 1 else ceil(LARGE * target)


def right_sizes(target: int) -> tuple[int, int]:
    """The least and the greatest size of a file that is neither small nor too large."""
    return ceil(SMALL * target), int(LARGE * target)


@dataclass(frozen=True, slots=True)
class TableRules:
    """How the files of one table are grouped. `fresh` are the snapshots after which a partition has to settle first.
    `ordered`: only files beside each other are rewritten together, since their order is the order of rows.
    """

    identifier: str
    uuid: str
    target: int
    min_input_files: int
    many_deletes: int = MANY_DELETES
    fresh: frozenset[int] = frozenset()
    settle_minutes: int = 0
    several_specs: bool = False
    format: str = ""
    layout: str = ""
    ordered: bool = False

    def groups(self, files: Iterable[PartitionFile]) -> list[FileGroup]:
        """The groups of one partition of the table."""
        group = runs_of if self.ordered else groups_of
        return group(files, self.target, self.min_input_files, self.many_deletes)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A file, or files that become one file of this size."""

    files: tuple[PartitionFile, ...]
    reason: str = ""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def heavy(self, many_deletes: int) -> bool:
        """Whether deletes alone are a reason to rewrite it."""
        return any(
            (file.deleted > 0 and file.deleted >= DELETED_SHARE * file.rows) or file.own + file.shared >= many_deletes
            for file in self.files
        )


def groups_of(
    files: Iterable[PartitionFile], target: int, min_input_files: int, many_deletes: int = MANY_DELETES
) -> list[FileGroup]:
    """The groups of one partition. A group leaves fewer files, cuts one that is too large, or applies deletes.

    What a group becomes is no candidate for the next plan: its files are of the right size, or too few to be grouped. For
    that, small files that together reach the next level are judged there once more, with what is there already. Only where
    a partition has more small files, or deletes, than one group may have, what its groups become may be small still: the
    next plan takes those together, and the one after it is empty.
    """
    units = [_Unit((file,)) for file in sorted(files, key=lambda file: (file.size, file.path))]
    groups: list[FileGroup] = []
    for level, share in enumerate(LEVELS):
        waiting = sorted((unit for unit in units if unit.size < share * target), key=lambda unit: unit.size)
        units = [unit for unit in units if unit.size >= share * target]
        for some in _bins(waiting, target):
            higher, found = _judged(some, level, target, min_input_files, many_deletes)
            units += higher
            groups += found
    return [*groups, *_alone(units, target, many_deletes)]


def runs_of(
    files: Iterable[PartitionFile], target: int, min_input_files: int, many_deletes: int = MANY_DELETES
) -> list[FileGroup]:
    """The groups of one partition whose files lie in the order of their rows: each is a run of files beside each other, so
    that what it becomes can take its place. Else as `groups_of`.
    """
    units: list[_Unit | None] = []  # None: something lies there that no run reaches across
    last = None
    for file in sorted(files, key=lambda file: file.place):
        units += [_Unit((file,))] if last is None or file.place == last + 1 else [None, _Unit((file,))]
        last = file.place
    groups: list[FileGroup] = []
    for level, share in enumerate(LEVELS):
        left: list[_Unit | None] = []
        for small, some in groupby(units, partial(_below, share * target)):
            if not small:
                left += some
                continue
            for run in _bins([unit for unit in some if unit is not None], target):
                higher, found = _judged(run, level, target, min_input_files, many_deletes)
                left += higher or [None]
                groups += found
        units = left
    return [*groups, *_alone([unit for unit in units if unit is not None], target, many_deletes)]


def _below(size: float, unit: _Unit | None) -> bool:
    return unit is not None and unit.size < size


def _judged(
    some: Sequence[_Unit], level: int, target: int, min_input_files: int, many_deletes: int
) -> tuple[list[_Unit], list[FileGroup]]:
    """What becomes of the units of one bin: one that is judged again with the next level, or groups."""
    enough = len(some) >= min_input_files
    reason = f"{SMALL_FILES}, level {level}" if enough else DELETES
    whole = _Unit(tuple(file for unit in some for file in unit.files), reason)
    if not enough and not any(unit.heavy(many_deletes) for unit in some):
        return [], [FileGroup(unit.files, unit.reason) for unit in some if unit.reason]
    if LEVELS[level] * target <= whole.size < LEVELS[-1] * target:
        return [whole], []
    return [], [FileGroup(whole.files, whole.reason)]


def _alone(units: Iterable[_Unit], target: int, many_deletes: int) -> Iterator[FileGroup]:
    """Units that are no longer small, and are rewritten for their deletes or their size."""
    for unit in units:
        if unit.heavy(many_deletes) or unit.size > LARGE * target:
            yield FileGroup(unit.files, DELETES if unit.heavy(many_deletes) else "too large")


def _bins(units: Sequence[_Unit], target: int) -> list[list[_Unit]]:
    """The units in order, cut where a bin would be more than one task should carry."""
    bins: list[list[_Unit]] = []
    weight = count = own = shared = 0
    for unit in units:
        mine = sum(file.own for file in unit.files)
        # Of two files of a partition, all shared deletes of the newer one apply to the older one too.
        most = max(shared, *(file.shared for file in unit.files))
        if (
            not bins
            or weight + unit.size > GROUP_TARGETS * target
            or count + len(unit.files) > GROUP_FILES
            or own + mine + most > GROUP_DELETES
        ):
            bins.append([])
            weight = count = own = 0
            most = max(file.shared for file in unit.files)
        bins[-1].append(unit)
        weight += unit.size
        count += len(unit.files)
        own += mine
        shared = most
    return bins


@dataclass(frozen=True, slots=True)
class Compactable:
    """One table as planning sees it: whether it can be compacted, to which size, or why not.

    `lists` and `manifests` are what the current snapshot is made of, where the table's state alone does not tell it.
    `layout` is a text for the format's worker: what it has to know of the table to tell where files lie.
    `written` are the snapshots that brought or took rows, each with its time in ms, where a format tells which files came
    with which; a table without partitions has none, since it may never be quiet. `several_specs`: deletes that were written
    without a partition may reach files that have one. `engine` is how
    the format's own engine is to write the files where ours does not write them exactly, for the reason in `engine_why`.
    `ordered`: the order of files is the order of rows, as the `sequence` of live files says.
    """

    target: int = 0
    refusal: Refusal | None = None
    left: str | None = None
    layout: str = ""
    engine: str = ""
    engine_why: str = ""
    lists: tuple[ManifestList, ...] | None = None
    manifests: tuple[NamedManifest, ...] = ()
    written: Mapping[int, int] = field(default_factory=dict)
    several_specs: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """A planned group: its name, the addresses of its files, the branch that they are on, the bytes of their partition
    where they are known, how large the files are together, and why they are rewritten. `engine` says how the format's own
    engine is to write it, where ours does not. `planned_from` is the snapshot in which they were found."""

    name: str
    paths: tuple[str, ...]
    branch: str = "main"
    partition: bytes | None = None
    size: int = 0
    reason: str = ""
    engine: str = ""
    planned_from: int | None = None

    @property
    def weight(self) -> int:
        """How much work it is, in bytes: opening a file costs something too."""
        return self.size + len(self.paths) * OPENING

    @property
    def place(self) -> str:
        """Short, and tells the partitions of a table apart, on each branch: the group's lease is held on it."""
        return hashlib.sha256(self.branch.encode() + b"\0" + (self.partition or b"")).hexdigest()[:16]


@dataclass(frozen=True)
class Prepared:
    """Groups of one table that can be rewritten now: an order for each, and what became of the others.

    `orders` are texts that the format's worker understands. `made` are the commits that this run has made before,
    `dropped` are groups that cannot be rewritten any more, with the reason. `by_engine` are those that the format's own
    engine writes.
    """

    seen: Any
    orders: Mapping[str, str] = field(default_factory=dict)
    made: Sequence[Landed] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    kept: Any = None
    branch: str = "main"
    # The snapshot that the groups' files are read from, and each group's partition as a person would name it.
    start_snapshot: int | None = None
    partitions: Mapping[str, str] = field(default_factory=dict)
    by_engine: Mapping[str, EngineGroup] = field(default_factory=dict)

    @property
    def done(self) -> list[str]:
        """The groups of those commits."""
        return [name for landed in self.made for name in landed.groups]


@dataclass(frozen=True, slots=True)
class GroupLease:
    """The lease under which a group was rewritten."""

    key: str
    epoch: int


@dataclass(frozen=True)
class Unused:
    """New files of which it is certain that no commit of ours names them; `named` says which a table names all the same."""

    uris: Sequence[str] = ()
    named: Callable[[], Collection[str]] = frozenset


@dataclass(frozen=True, slots=True)
class Landed:
    """What one commit did. `failed` is what kept every group from landing; files of a commit that may have been made are
    never `unused`. `ways` tells of each group how it was rewritten, and why not by a cheaper way.
    """

    snapshot: int | None
    groups: Sequence[str]
    dropped: Mapping[str, str]
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    unused: Unused = field(default_factory=Unused)
    failed: LakewardenError | None = None
    ways: Mapping[str, str] = field(default_factory=dict)


class RewriteWorker(Protocol):
    """What executors do for compaction. It is pickled."""

    def data_files(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        """What manifests hold of live files, a row a file.

        `partition` (its bytes), `content` (0 data, 1 deletes by position, 2 deletes by equality), `path`, `size` in bytes,
        `rows`, and `about`: the one data file that deletes are about, null where it is not said. Rows of a format whose
        manifests take away what others added, or name files by bare names, are made whole by `live_files`. A format
        whose deletes need them adds `sequence`, `snapshot` and `everywhere`, one whose files have an order `sequence` and
        `last_sequence` (`pipeline.read.data_files.DATA_FILES`).
        """
        ...

    def live_files(self, rows: Any, layout: str) -> Any:
        """The rows of `data_files` of one partition, from all manifests, as those of live files by their addresses."""
        ...

    def rewrite(self, order: str, stores: Any) -> str:
        """The order's answer: new files that were written, or why not. Raises nothing that a lake can cause."""
        ...


class Compactor(Protocol):
    """How a format's tables are compacted: what can be planned, rewritten and committed."""

    @property
    def worker(self) -> RewriteWorker: ...

    def survey(self, state: TableState, policy: CompactionPolicy) -> Compactable: ...

    def made(self, pointer: Pointer, branch: str, run_id: str) -> Sequence[Landed]:
        """The commits that a run has made on a branch, as far as they are still there."""
        ...

    def prepare(
        self, pointer: Pointer, table_uuid: str, groups: Sequence[GroupFiles], target: int, run_id: str
    ) -> Prepared:
        """The table as it is now, and an order for each group whose files are all there. Raises PlanOutdatedError."""
        ...

    def commit(
        self,
        pointer: Pointer,
        prepared: Prepared,
        answers: Mapping[str, str],
        leases: Mapping[str, GroupLease],
        properties: Mapping[str, str],
        now_ms: int,
        may_commit: Callable[[], None],
    ) -> Landed:
        """Put what was rewritten in the place of the groups' files, in one commit."""
        ...
