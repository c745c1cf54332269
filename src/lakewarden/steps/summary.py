"""What a run changed and what a plan would change, in the job's own words: `12 snapshots, 1 ref expired`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

import humanize

from lakewarden.model.plan import Plan
from lakewarden.model.policy import DeleteMode, mode_of
from lakewarden.model.run import RESTORED, REVALIDATED, RunResult, RunStatus
from lakewarden.steps.counts import FILES, Count, restored_kind
from lakewarden.steps.job import JobSpec

QUARANTINED = "quarantined"
TO_QUARANTINE = "to move to the trash"


def changed_by(spec: JobSpec, result: RunResult) -> list[Count]:
    """What a run has changed, each kind that it changed anything of."""
    if RESTORED in result.changed:
        found = [Count(result.changed[RESTORED], restored_kind(result.job), "restored")]
    elif spec.deletes:
        found = [
            Count(result.deleted.files, FILES, spec.words.done, result.deleted.bytes - result.hidden.bytes),
            Count(result.quarantined.files, FILES, QUARANTINED, result.quarantined.bytes),
        ]
    else:
        found = [Count(number, kind, spec.words.done_of(kind)) for kind, number in result.changed.items()]
    return [count for count in found if count.number]


def planned_by(
    spec: JobSpec, changes: Mapping[str, int], *, size: int | None = None, trash: bool = False
) -> list[Count]:
    """What a plan would change. `trash`: its files are moved, and none is deleted."""
    return [
        Count(number, kind, TO_QUARANTINE if trash else spec.words.fate_of(kind), size if kind == FILES else None)
        for kind, number in in_order(spec, changes).items()
        if number
    ]


def in_order(spec: JobSpec, changes: Mapping[str, int]) -> dict[str, int]:
    """What a plan counts, the job's own kind first: a plan that was read again has its kinds by name."""
    kinds = [kind for kind in spec.changes if kind in changes]
    return {kind: changes[kind] for kind in dict.fromkeys([*kinds, *changes])}


def plan_summary(spec: JobSpec, plan: Plan) -> str:
    """One line on a plan: `26 files to delete (1.2 MiB)`, or that it has nothing to do."""
    totals = plan.totals()
    size = totals["verdicts"].get(plan.changing, {}).get("bytes") if spec.deletes else None
    return told(planned_by(spec, totals["changes"], size=size, trash=moves_to_trash(plan))) or "nothing to do"


def moves_to_trash(plan: Plan, lifted: Collection[str] = ()) -> bool:
    """Whether the files that this plan takes away are put into quarantine. One table that wants it is enough."""
    allowed = plan.allowed(lifted)
    return mode_of(table.policy for table in plan.tables if table.identifier in allowed) is DeleteMode.QUARANTINE


def run_summary(spec: JobSpec, result: RunResult) -> str:
    """One line on a run: what it changed, what it found gone, what failed, how many tables were refused. Never empty."""
    did = what_it_did(spec, result)
    counts = result.refused and result.status != RunStatus.PLANNED
    return f"{did}, {humanize.intcomma(len(result.refused))} refused" if counts else did


def what_it_did(spec: JobSpec, result: RunResult) -> str:
    """The same without the refused tables, for whoever tells of them elsewhere. Never empty."""
    if result.status == RunStatus.PLANNED:
        return told(planned_by(spec, result.planned, trash=result.to_trash)) or "nothing to do"
    parts = [told(changed_by(spec, result))]
    if result.absent:
        parts.append(f"{humanize.intcomma(result.absent)} already gone")
    if result.failed:
        parts.append(f"{humanize.intcomma(result.failures)} failed")
    return ", ".join(filter(None, parts)) or unchanged(result)


def unchanged(result: RunResult) -> str:
    """What is said of a run that changed nothing: where tables were refused, or files of the plan have changed since,
    there may be something to do."""
    idle = result.status == RunStatus.DONE and not result.refused and not result.kept.get(REVALIDATED)
    return "nothing to do" if idle else "nothing was changed"


def told(counts: Sequence[Count]) -> str:
    """Counts as a person says them; those of one fate together."""
    return ", ".join(_phrases(counts))


def _phrases(counts: Sequence[Count]) -> Iterator[str]:
    for fate, group in groupby(counts, lambda count: count.fate):
        found = list(group)
        size = sum(count.bytes or 0 for count in found)
        told_size = f" ({humanize.naturalsize(size, binary=True, format='%.1f')})" if size else ""
        yield f"{', '.join(map(str, found))} {fate}{told_size}"
