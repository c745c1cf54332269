"""What is counted for Prometheus: every metric by name, and what one plan and one run add to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lakewarden.model.errors import InvariantViolationError
from lakewarden.model.plan import Plan, Tally
from lakewarden.model.policy import Job
from lakewarden.model.run import REVALIDATED, RunStatus
from lakewarden.model.table import parts_of
from lakewarden.model.verdict import Verdict

PREFIX = "lakewarden_"
JOB, STATUS, REASON, CODE, FORMAT, TENANT = "job", "status", "reason", "code", "format", "tenant"


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name without the prefix, its kind, its labels, what it says; of a histogram, its bounds too."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    says: str
    bounds: tuple[float, ...] = ()


def _counter(name: str, says: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.COUNTER, labels, says)


def _gauge(name: str, says: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, labels, says)


RUNS = _counter("runs_total", "Runs that ended, and stops of runs that did not", JOB, STATUS)
LISTED = _counter("files_listed_total", "Files that plans looked at", JOB)
PLANNED = _counter("files_planned_total", "Files that plans would delete, release, copy or rewrite", JOB)
KEPT = _counter("files_kept_total", "Files that no table needs by now and that were kept", JOB, REASON)
DELETED = _counter("files_deleted_total", "Files that were deleted or moved to the trash", JOB)
BYTES_DELETED = _counter("bytes_deleted_total", "Bytes of files that were deleted or moved to the trash", JOB)
ERRORS = _counter("delete_errors_total", "Files and tables that a run was to change and could not", JOB, CODE)
REFUSALS = _counter("refusals_total", "Tables that plans left alone, brakes too", JOB, CODE)
COMPACTED = _counter("files_compacted_total", "Files that compaction replaced")
EXPIRED = _counter("snapshots_expired_total", "Snapshots that were expired")
ARCHIVED = _counter("history_rows_archived_total", "Rows of tables' histories that were archived")
CONFLICTS = _counter("lease_conflicts_total", "Leases that somebody else held or took first")
LOST = _counter("lease_lost_total", "Leases that were lost while their holder was at work")
WASTED = _counter("wasted_bytes_total", "Bytes that compaction wrote and could not commit", JOB)
VIOLATIONS = _counter("invariant_violations_total", "Promises that were broken; must stay 0")
LAST_SUCCESS = _gauge("last_success_timestamp_seconds", "When a run of the job last ended well", JOB)
RECLAIMABLE = _gauge("reclaimable_bytes", "Bytes that the newest plans would free", JOB, FORMAT, TENANT)
ORPHAN_SHARE = _gauge("orphan_share_ratio", "Orphans' share of the bytes that were listed", FORMAT, TENANT)
UNSAID = _gauge("lineage_violations", "Snapshots that break the lineage rules of their table")
LEASES = _gauge("leases_active", "Leases that are held now")
OPEN_INTENTS = _gauge("journal_open_intents", "Batches that were announced and have no outcome")
DRILLED = _gauge("restore_drill_success_timestamp_seconds", "When a restore drill last brought something back", "place")
DRILL_FAILURES = _counter(
    "restore_drill_failures_total", "Restore drills in which something did not come back", "place"
)
BUILD = _gauge("build_info", "The version that answers", "version")
DURATION = Metric(
    "run_duration_seconds",
    MetricKind.HISTOGRAM,
    (JOB,),
    "How long runs took, from their start to their end",
    (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600),
)
BATCH = Metric(
    "batch_files",
    MetricKind.HISTOGRAM,
    (JOB,),
    "How many files the batches of runs had",
    (1, 10, 100, 250, 500, 1000, 2500, 5000, 10000),
)

METRICS: tuple[Metric, ...] = (
    RUNS, LISTED, PLANNED, KEPT, DELETED, BYTES_DELETED, ERRORS, REFUSALS, COMPACTED, EXPIRED, ARCHIVED, CONFLICTS, LOST,
    WASTED, VIOLATIONS, LAST_SUCCESS, RECLAIMABLE, ORPHAN_SHARE, UNSAID, LEASES, OPEN_INTENTS, DRILLED, DRILL_FAILURES,
    BUILD, DURATION, BATCH,
)  # fmt: skip
STOPPED = "stopped"
# Failures beyond those that a run's record names one by one, and those that a store has words of its own for.
OTHER = "other"
# What a store itself may call a failure, by S3's names. A server that puts a request's id into its codes, or means harm,
# would else begin a new series with every file.
STORES_CODES = frozenset({
    "AccessDenied", "AccountProblem", "ExpiredToken", "InternalError", "InvalidAccessKeyId", "InvalidObjectState",
    "InvalidRequest", "InvalidToken", "MethodNotAllowed", "NoSuchBucket", "NotImplemented", "OperationAborted",
    "PreconditionFailed", "RequestTimeTooSkewed", "RequestTimeout", "ServiceUnavailable", "SignatureDoesNotMatch", "SlowDown",
})  # fmt: skip
_OURS = re.compile(r"LW-[A-Z0-9]{1,20}-\d{3}|errno-\d{1,3}")
_WELL = (RunStatus.DONE, RunStatus.PLANNED)
_NOT_KEPT = (Verdict.LIVE,)


@dataclass(frozen=True, slots=True)
class Sample:
    """So much more of a metric, under values of its labels. Of a histogram: one value that was observed."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableStanding:
    """What the newest plan of a job saw of one table."""

    job: str
    identifier: str
    format: str
    tenant: str
    reclaimable: int
    listed: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that ended: its record, and what only its journal and its steps know."""

    job: str
    status: str
    seconds: float
    result: Mapping[str, Any]
    batches: Sequence[int] = ()
    failed_files: int = 0
    wasted: int = 0
    ended_by: str | None = None


def tenant_of(identifier: str) -> str:
    """Whose table it is: the first namespace of `catalog.namespace….table`. Empty for a table without a namespace."""
    parts = parts_of(identifier)
    return parts[1] if len(parts) > 2 else ""


def of_plan(plan: Plan) -> Iterator[Sample]:
    """What a new plan adds."""
    totals = plan.totals()
    files = {name: tally["files"] for name, tally in totals["verdicts"].items()}
    yield from _some(LISTED, sum(files.values()), plan.job)
    yield from _some(PLANNED, totals["changes"].get("files", files.get(plan.changing, 0)), plan.job)
    for verdict, count in files.items():
        if verdict not in (*_NOT_KEPT, plan.changing):
            yield from _some(KEPT, count, plan.job, str(verdict))
    for code, count in Counter(table.refusal.code for table in plan.tables if table.refusal).items():
        yield from _some(REFUSALS, count, plan.job, code)


def standings(plan: Plan) -> Iterator[TableStanding]:
    """What a plan saw of each table whose files it judged. A refused table is as it was when it was last judged."""
    for table in plan.tables:
        if table.refusal is None and table.verdicts:
            yield TableStanding(
                job=plan.job,
                identifier=table.identifier,
                format=table.format,
                tenant=tenant_of(table.identifier),
                reclaimable=table.verdicts.get(plan.changing, Tally()).bytes,
                listed=sum(tally.bytes for tally in table.verdicts.values()),
            )


def unsaid(plan: Plan) -> int | None:
    """How many snapshots of the fleet break the rules of their table; None of a plan that did not look at every table."""
    if plan.job != Job.LINEAGE_CHECK or not plan.pointers.keys() <= {table.identifier for table in plan.tables}:
        return None
    return int(plan.totals()["changes"].get("violations", 0))


def _bounded(code: str) -> str:
    """An error's code as a label's value, of which there are few."""
    return code if code in STORES_CODES or _OURS.fullmatch(code) else OTHER


def of_run(run: Ended) -> Iterator[Sample]:
    """What a run that ended adds."""
    result, job = run.result, run.job
    changed = result.get("changed", {})
    yield Sample(RUNS, 1, (job, run.status))
    yield Sample(DURATION, max(0.0, run.seconds), (job,))
    for size in run.batches:
        yield Sample(BATCH, size, (job,))
    gone = [result.get(name, {}) for name in ("deleted", "quarantined")]
    yield from _some(DELETED, sum(tally.get("files", 0) for tally in gone), job)
    yield from _some(BYTES_DELETED, sum(tally.get("bytes", 0) for tally in gone), job)
    yield from _some(KEPT, result.get("kept", {}).get(REVALIDATED, 0), job, REVALIDATED)
    codes = Counter(_bounded(str(failed.get("code"))) for failed in result.get("failed", ()))
    for code, count in codes.items():
        yield from _some(ERRORS, count, job, code)
    yield from _some(ERRORS, run.failed_files - codes.total(), job, OTHER)
    if job == Job.COMPACTION:
        yield from _some(COMPACTED, changed.get("files", 0))
    if job == Job.SNAPSHOT_EXPIRY:
        yield from _some(EXPIRED, changed.get("snapshots", 0))
    if job == Job.HISTORY:
        yield from _some(ARCHIVED, changed.get("rows", 0))
    yield from _some(WASTED, run.wasted, job)
    broken = InvariantViolationError.code
    yield from _some(VIOLATIONS, codes[broken] + (run.ended_by == broken))


def of_stop(job: str) -> Sample:
    """What a stop of a run adds: the run is open, and may be stopped again."""
    return Sample(RUNS, 1, (job, STOPPED))


def ended_well(status: str) -> bool:
    """Whether a run did all that it was asked to: a dry run that ended with its plan did."""
    return status in _WELL


def _some(metric: Metric, count: float, *labels: str) -> Iterator[Sample]:
    if count > 0:
        yield Sample(metric, count, labels)
