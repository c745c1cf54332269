"""What a scheduled plan is confirmed against: earlier plans, each a margin before the next.

A file that one faulty look calls an orphan should not go; so it has to be one in as many plans in a row as its table's
policy says, this one included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.ledger.plans import SavedPlan
from lakewarden.model.policy import Job, OrphanPolicy
from lakewarden.model.prefixes import Prefixes
from lakewarden.model.roots import Claim
from lakewarden.model.verdict import Verdict
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.copying import sizes_at

_JUST_BEFORE = timedelta(microseconds=1)
# Carried by every task, name by name. The others are confirmed by a later plan, when these are gone.
MOST_CONFIRMED = 500_000


def confirmed(
    deployment: Deployment, policies: Mapping[str, OrphanPolicy], claims: Iterable[Claim], now: datetime
) -> pa.Array:
    """The addresses that as many earlier plans called orphans, or would have but for another sighting, as the table asks
    for in whose directory they lie; of several tables in one directory the strictest counts."""
    # By the directory, not by the table's name in those plans: two tables may have swapped their names since.
    most = max((policy.confirmations for policy in policies.values()), default=1) - 1
    times: dict[str, int] = {}
    for claim in claims:
        times[claim.prefix] = max(policies[claim.identifier].confirmations - 1, times.get(claim.prefix, 0))
    directories = Prefixes(times)
    ages = []
    for age, files in enumerate(earlier_plans(deployment, policies.values(), now)):
        found = _orphans(deployment, files)
        ages.append(found.append_column("age", pa.array(np.full(found.num_rows, age))))
    if not ages:
        return pa.array([], pa.string())
    rows = pa.concat_tables(ages)
    if set(times.values()) <= {most}:
        # Every table asks for as many, and so does whatever lies in no table's directory.
        asked = pa.repeat(pa.scalar(most, pa.int64()), rows.num_rows)
    else:
        owners = map(directories.of, rows["uri"].to_pylist())
        asked = pa.array([most if owner is None else times[owner] for owner in owners], pa.int64())
    rows = rows.append_column("times", asked)
    rows = rows.filter(pc.less(rows["age"], rows["times"]))
    often = rows.group_by("uri").aggregate([("age", "count_distinct"), ("times", "max")])
    enough = often.filter(pc.greater_equal(often["age_count_distinct"], often["times_max"]))
    return enough["uri"].combine_chunks().slice(0, MOST_CONFIRMED)


def _orphans(deployment: Deployment, files: Iterable[str]) -> pa.Table:
    """The addresses that a plan called orphans."""
    schema = pa.schema([("uri", pa.string())])
    wanted = pa.array([str(Verdict.ORPHAN), str(Verdict.UNCONFIRMED)])
    parts = [schema.empty_table()]
    for uri in files:
        file = pq.ParquetFile(pa.BufferReader(deployment.stores.get(uri)), page_checksum_verification=True)
        rows = file.read(columns=["uri", "verdict"], use_threads=False)
        parts.append(rows.filter(pc.is_in(rows["verdict"], wanted)).select(schema.names).cast(schema))
    return pa.concat_tables(parts)


def earlier_plans(deployment: Deployment, policies: Iterable[OrphanPolicy], now: datetime) -> list[list[str]]:
    """The files of the plans that count as sightings, newest plan first: as many as the strictest policy asks for.

    Fewer where there are no more, or where one is no longer whole: then nothing is confirmed by it or any before it.
    """
    strictest = list(policies)
    margin = max((policy.margin for policy in strictest), default=timedelta())
    wanted = max((policy.confirmations for policy in strictest), default=1) - 1
    found: list[list[str]] = []
    instant = now - margin
    while len(found) < wanted:
        plan = deployment.ledger.plans.newest_before(Job.ORPHAN_CLEANUP, instant)
        files = _files(deployment, plan) if plan is not None else []
        if plan is None or plan.created_at is None or not files:
            break
        found.append(files)
        instant = plan.created_at - max(margin, _JUST_BEFORE)
    return found


def _files(deployment: Deployment, plan: SavedPlan) -> list[str]:
    """The addresses of a plan's files; none if it has none, or has lost one."""
    if not plan.path:
        return []
    parts = deployment.ledger.plans.parts(plan.plan_id)
    files = [plan.path + part.name for part in parts]
    whole = sizes_at(deployment.stores, files) == [part.bytes for part in parts]
    return files if whole else []
