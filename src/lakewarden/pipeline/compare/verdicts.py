"""The verdict on every listed file, a column at a time. Pure: rows and rules in, rows with verdicts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.ports import FileNames, Heartbeat
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.names import CODES_BY_NAME, KIND_CODES, METADATA_JSON, file_names

STREAMING = "an uncommitted file of a streaming writer"
NOT_ORDINARY = "not an ordinary file"


@dataclass(frozen=True)
class Ownership:
    """A directory and the table whose files lie in it; deeper ones win."""

    prefix: str
    table_id: int


@dataclass(frozen=True)
class Rules:
    """Everything a verdict depends on besides the row itself.

    `cutoffs` are instants in epoch microseconds by table: a file must be older than its table's. `formats` has each
    table's format as its number in `names`. What no rule keeps is `changing`; `only` leaves out the rows without that mark.
    """

    owners: dict[int, tuple[Ownership, ...]]
    cutoffs: tuple[int, ...]
    selected: tuple[bool, ...]
    confirm: tuple[bool, ...]
    writer_prefixes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    heartbeats: Sequence[Heartbeat] = ()
    names: tuple[FileNames, ...] = ()
    formats: tuple[int, ...] = ()
    changing: Verdict = Verdict.ORPHAN
    only: int = 0

    def formats_of_roots(self, roots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Each root's format, as its number in `names`. A root with tables of two formats is never swept."""
        found, places = np.unique(roots, return_inverse=True)
        formats = [self.formats[self.owners[int(root)][0].table_id] for root in found]
        return np.array(formats, np.int32)[places]

    def matching(
        self, pattern: Callable[[FileNames], str | None], table_ids: NDArray[np.int32], paths: pa.Array
    ) -> pa.Array:
        """Which paths match their own format's pattern."""
        found = np.zeros(len(paths), bool)
        formats = np.array(self.formats, np.int32)[table_ids]
        for number, names in enumerate(self.names):
            if (regex := pattern(names)) is not None and (mine := formats == number).any():
                found |= mine & pc.match_substring_regex(paths, regex).to_numpy(zero_copy_only=False)
        return pa.array(found)


def judge(rows: pa.Table, rules: Rules) -> pa.Table:
    """JOINED rows without live ones in; PLAN_ROWS columns (table as `table_id`) plus `relative` out.

    First match wins, in the order of `Verdict`. Rows of tables that are not selected are dropped, but for metadata
    files: an unknown table's, wherever it lies in a root, makes the whole root unknown.
    """
    if rules.only:
        # Metadata that no table names is looked at whatever its mark: it may be another table's.
        strange = pc.match_substring_regex(rows[c.KEY], METADATA_JSON)
        rows = rows.filter(pc.or_(_has(pc.fill_null(rows[c.MARK], 0), rules.only), strange))
    rows = rows.take(pa.array(np.argsort(rows[c.ROOT].to_numpy(), kind="stable")))
    table_ids, relative = _owners(rows, rules)
    names = file_names(rows[c.KEY].combine_chunks())
    orphans = rules.changing is Verdict.ORPHAN
    reasons = (_reasons if orphans else _kept_reasons)(rows, rules, table_ids, relative, names)
    verdict = pa.repeat(str(rules.changing), rows.num_rows)
    reason = pa.repeat("no metadata reaches it" if orphans else "only expired snapshots need it", rows.num_rows)
    for name, why, applies in reversed(reasons):
        verdict = pc.if_else(applies, str(name), verdict)
        reason = pc.if_else(applies, why, reason)
    judged = pa.table(
        {
            "uri": rows[c.KEY],
            c.TABLE: pa.array(table_ids, pa.int32()),
            "verdict": verdict,
            "reason": reason,
            c.KIND: kinds_of(relative, rules, table_ids),
            c.SIZE: rows[c.SIZE],
            c.MODIFIED: rows[c.MODIFIED],
            c.ETAG: rows[c.ETAG],
            c.ROOT: rows[c.ROOT],
            "relative": relative,
            c.MARK: rows[c.MARK],
            c.FLAG: rows[c.FLAG],
        }
    )
    selected = pa.array(np.array(rules.selected, bool)[table_ids])
    return judged.filter(pc.or_(selected, pc.match_substring_regex(names, METADATA_JSON)))


def _kept_reasons(
    rows: pa.Table, rules: Rules, table_ids: NDArray[np.int32], relative: pa.Array, names: pa.Array
) -> list[tuple[Verdict, str, pa.Array]]:
    """Why a file that metadata named would stay: its table vouched for it, so neither name nor age matter."""
    mark = pc.fill_null(rows[c.MARK], 0).combine_chunks()
    reasons = [
        (Verdict.LIVE, "a snapshot reaches it", _has(mark, c.MARK_LIVE)),
        (Verdict.PROTECTED, NOT_ORDINARY, pc.is_valid(rows[c.FLAG].combine_chunks())),
    ]
    if rules.only:
        reasons.append((Verdict.PROTECTED, "metadata that its table does not name", pc.invert(_has(mark, rules.only))))
    return reasons


def _reasons(
    rows: pa.Table, rules: Rules, table_ids: NDArray[np.int32], relative: pa.Array, names: pa.Array
) -> list[tuple[Verdict, str, pa.Array]]:
    """Verdicts in order, each with its reason and the rows it applies to."""
    mark = pc.fill_null(rows[c.MARK], 0).combine_chunks()
    modified = rows[c.MODIFIED].combine_chunks().cast(pa.int64())
    cutoffs = pa.array(np.array(rules.cutoffs, np.int64)[table_ids])
    flagged = rows[c.FLAG].combine_chunks()
    written = rules.matching(lambda n: n.written, table_ids, relative)
    reasons = [
        (Verdict.LIVE, "a snapshot reaches it", _has(mark, c.MARK_LIVE)),
        (Verdict.PENDING, "an expiry released it; physical deletion will take it", _has(mark, c.MARK_PENDING)),
        (Verdict.PROTECTED, NOT_ORDINARY, pc.is_valid(flagged)),
        (Verdict.PROTECTED, "hidden name", rules.matching(lambda n: n.hidden, table_ids, relative)),
        (Verdict.PROTECTED, "a name that may be used again", rules.matching(lambda n: n.reused, table_ids, relative)),
        (Verdict.PROTECTED, "not a file that the format writes", pc.invert(written)),
    ]
    for table_id, prefixes in rules.writer_prefixes.items():
        for prefix in prefixes:
            mine = pc.and_(pa.array(table_ids == table_id), pc.starts_with(names, prefix))
            reasons.append((Verdict.PROTECTED, STREAMING, mine))
    reasons += [
        (Verdict.UNKNOWN_AGE, "the store gives no modification time", pc.is_null(modified)),
        (Verdict.TOO_NEW, "younger than the grace period", pc.fill_null(pc.greater_equal(modified, cutoffs), True)),
    ]
    for beat in rules.heartbeats:
        since = int(beat.covers_from.timestamp() * 1_000_000)
        begun = pc.fill_null(pc.greater_equal(modified, since), True)
        covered = pc.and_(pc.starts_with(rows[c.KEY].combine_chunks(), beat.prefix), begun)
        reasons.append((Verdict.IN_FLIGHT, beat.told, covered))
    unseen = pc.and_(pa.array(np.array(rules.confirm, bool)[table_ids]), pc.invert(_has(mark, c.MARK_SEEN)))
    reasons.append((Verdict.UNCONFIRMED, "not yet an orphan in as many plans as a scheduled run asks for", unseen))
    return reasons


def _has(mark: pa.Array, bit: int) -> pa.Array:
    return pc.not_equal(pc.bit_wise_and(mark, bit), 0)


def _owners(rows: pa.Table, rules: Rules) -> tuple[NDArray[np.int32], pa.Array]:
    """Each row's table (by the deepest directory above it) and its name below that directory. Rows are sorted by root."""
    keys = rows[c.KEY].combine_chunks()
    roots, starts = np.unique(rows[c.ROOT].to_numpy(), return_index=True)
    table_ids = np.zeros(rows.num_rows, np.int32)
    names: list[pa.Array] = []
    for root_id, start, end in zip(roots, starts, np.append(starts, rows.num_rows)[1:], strict=True):
        below = keys.slice(start, end - start)
        relative = below
        owners = rules.owners[int(root_id)]
        # What lies in no directory of a table (a root that is itself a link) is the outermost one's.
        table_ids[start:end] = owners[-1].table_id
        for owner in reversed(owners):
            inside = pc.starts_with(below, owner.prefix)
            table_ids[start:end][inside.to_numpy(zero_copy_only=False)] = owner.table_id
            relative = pc.if_else(inside, pc.utf8_slice_codeunits(below, len(owner.prefix)), relative)
        names.append(relative)
    return table_ids, pa.concat_arrays(names) if names else keys


def kinds_of(relative: pa.Array, rules: Rules, table_ids: NDArray[np.int32]) -> pa.Array:
    """The kind of each file, by its name below its table's directory."""
    kinds = pa.repeat(str(Kind.OTHER), len(relative))
    formats = np.array(rules.formats, np.int32)[table_ids]
    for number, names in enumerate(rules.names):
        mine = pa.array(formats == number)
        for kind, pattern in reversed(names.kinds):
            kinds = pc.if_else(pc.and_(mine, pc.match_substring_regex(relative, pattern)), str(kind), kinds)
    return kinds


def live_kinds(codes: pa.Array) -> pa.Array:
    """Kind names of live rows, whose manifests said what they are."""
    known = pa.array(list(CODES_BY_NAME.values()), pa.int32())
    at = pc.index_in(pc.fill_null(codes, KIND_CODES[Kind.OTHER]), known)
    return pa.array(list(CODES_BY_NAME)).take(at)
