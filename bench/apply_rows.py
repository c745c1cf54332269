"""A plan of generated rows, written by one process and applied by another against a store that answers at once.

`python -m bench.apply_rows CONFIG COUNT` writes the plan and prints where it lies; with a third word, the place of a plan,
it applies that one and prints seconds and peak memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

import lakewarden
from lakewarden.model.plan import PLAN_FILE, Plan, PlannedRoot, TablePlan, Tally
from lakewarden.model.policy import Job, OrphanPolicy
from lakewarden.model.ports import FileOutcome
from lakewarden.model.verdict import Outcome
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.plan_files import ROWS_PER_PART, write_part
from lakewarden.steps.apply import removal
from lakewarden.steps.observe.fleet import load_fleet
from lakewarden.warden import Warden

SIZE = 1000


def written(warden: Warden, count: int) -> str:
    """Where a plan of so many orphans of the lake's first table lies. The orphans are in no order, as tasks write them."""
    deployment = warden._deployment
    now = deployment.clock.now()
    fleet = load_fleet(deployment, now - timedelta(hours=168))
    state, root = fleet.states[0], fleet.roots[0]
    directory = f"{deployment.state}plans/{deployment.new_id()}/"
    parts = []
    for start in range(0, count, ROWS_PER_PART):
        # Every name once, spread over all files of the plan.
        numbers = [n * 7_919 % count for n in range(start, min(count, start + ROWS_PER_PART))]
        uris = [f"{root.prefix}data/p={n % 97}/{n:012d}-5f0c2e1a-8d7b.parquet" for n in numbers]
        columns = {
            "uri": uris, "table": state.identifier, "verdict": "orphan", "reason": "generated", c.KIND: "data",
            c.SIZE: SIZE, c.MODIFIED: now - timedelta(days=30), c.ETAG: "5-6543210", c.ROOT: root.id,
        }  # fmt: skip
        arrays = [
            pa.array(uris) if n == "uri" else pa.repeat(pa.scalar(columns[n]), len(uris)) for n in c.PLAN_ROWS.names
        ]
        rows = pa.table(arrays, names=c.PLAN_ROWS.names).cast(c.PLAN_ROWS)
        parts.append(write_part(deployment.stores, directory, rows))
    policy = deployment.policy_for(Job.ORPHAN_CLEANUP, state.identifier, {}, uuid=state.uuid, unsafe_short_grace=())
    table = TablePlan(
        state.identifier, state.uuid, state.format, state.metadata_location, state.refs,
        verdicts={"orphan": Tally(count, count * SIZE)}, changes={"files": count},
        policy=OrphanPolicy.of(policy.values).as_values(),
    )  # fmt: skip
    plan = Plan(
        job=Job.ORPHAN_CLEANUP, created_at=now, expires_at=now + timedelta(hours=24), cutoff=now - timedelta(hours=168),
        actor=warden.actor(), tables=(table,), parts=tuple(parts), pointers=fleet.pointers,
        roots=(PlannedRoot(root.prefix, root.tables),),
    ).sealed()  # fmt: skip
    deployment.stores.put(directory + PLAN_FILE, plan.dumps())
    deployment.ledger.plans.save(plan, directory)
    return directory


def at_once(permit: object, stores: object, files: Sequence[Any], *_: object, **__: object) -> list[FileOutcome]:
    """Every file is gone as soon as it is asked for."""
    return [FileOutcome(uri, Outcome.DELETED) for uri in files.uris]  # type: ignore[attr-defined]


def main(config: str, count: str, plan: str = "") -> None:
    with lakewarden.open(config) as warden:
        if not plan:
            print(json.dumps({"plan": written(warden, int(count))}))
            return
        removal.delete = at_once  # type: ignore[assignment]
        began = time.perf_counter()
        run = warden.apply(plan)
        seconds = time.perf_counter() - began
        assert run.deleted.files == int(count), run
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "peak": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
