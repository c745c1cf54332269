"""A ledger full of content, made directly: tables, plans with files, runs with journals, requests, a schedule."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.fleet import FleetRow
from lakewarden.ledger.requests import Ended
from lakewarden.ledger.schedules import Schedule
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import Refusal
from lakewarden.model.plan import PLAN_FILE, PartFile, Plan, TablePlan, Tally
from lakewarden.model.ports import FileOutcome, Heartbeat, JournalFile
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.pipeline import columns as c
from lakewarden.service.service import Service

ADA = Actor("ada", "host-1", Trigger.MANUAL, "OPS-7")
SCHEDULED = Actor("schedule", "host-1", Trigger.SCHEDULE)
DAMAGED = Refusal(
    "LW-TABLE-002",
    "s3://lake/finance/invoices/metadata/00007-m0.avro is cut short: 4,096 of 9,113 bytes",
    "Restore the manifest from a backup, or roll the table back to a snapshot before it.",
)
DAY = timedelta(days=1)


def fleet_rows(count: int, now: datetime) -> Iterator[FleetRow]:
    """So many tables of forty tenants: one in fifty refused, one in ten to look at."""
    for i in range(count):
        health = "refused" if i % 50 == 7 else "attention" if i % 10 == 3 else "healthy"
        code = {"refused": DAMAGED.code, "attention": "small files"}.get(health)
        reasons = {
            "refused": [{"code": DAMAGED.code, "message": DAMAGED.message, "hint": DAMAGED.hint}],
            "attention": [{
                "code": "small files",
                "message": "it has 100 data files or more, below 32 MiB on average",
                "hint": "Run lakewarden plan compaction: it says what rewriting them is worth.",
            }],
        }.get(health, [])  # fmt: skip
        snapshots = [
            {"id": 1000 + n, "at_ms": int((now - DAY * (30 - n)).timestamp() * 1000), "added": (i + n) << 20}
            for n in range(12)
        ]
        yield FleetRow(
            identifier=f"prod.tenant_{i % 40:02}.events_{i:05}",
            catalog="prod",
            namespace=f"tenant_{i % 40:02}",
            tenant=f"tenant_{i % 40:02}",
            format="paimon" if i % 4 == 1 else "iceberg",
            uuid=f"{i:08x}-0000-4000-8000-000000000000",
            health=health,
            observed_at=now,
            code=code,
            codes=[code] if code else [],
            snapshots=12 + i % 300,
            refs=3 if i % 20 == 0 else 1,
            files=None if health == "refused" else 40 + i % 5000,
            bytes=None if health == "refused" else (40 + i % 5000) * (9 << 20),
            reclaimable_bytes=(i % 97) << 24 if i % 6 == 0 else 0,
            orphan_share=(i % 97) / 900 if i % 6 == 0 else None,
            newest_commit_at=now - timedelta(minutes=7 * i),
            detail={
                "reasons": reasons,
                "snapshots": snapshots,
                "refs": [
                    {"name": "main", "snapshot_id": 1011, "kind": "branch"},
                    *(
                        [
                            {"name": "year-end", "snapshot_id": 1003, "kind": "tag"},
                            {"name": "experiment", "snapshot_id": 1009, "kind": "branch"},
                        ]
                        if i % 20 == 0
                        else []
                    ),
                ],
                "properties": {"lakewarden.orphan_cleanup.grace_period_hours": "240"} if i % 20 == 0 else {},
                "edges": [
                    {"source": "prod.raw.clicks", "target": f"prod.tenant_{i % 40:02}.events_{i:05}", "count": 14},
                    {"source": f"prod.tenant_{i % 40:02}.events_{i:05}", "target": "prod.mart.daily", "count": 3},
                ]
                if i % 20 == 0
                else [],
                "location": f"s3://lake/tenant_{i % 40:02}/events_{i:05}",
            },
        )


def write_plan(
    ledger: Ledger,
    folder: Path,
    now: datetime,
    *,
    actor: Actor = ADA,
    files: int = 60,
    tables: int = 3,
    quarantine: bool = True,
    approval: bool = False,
) -> Plan:
    """A plan of orphan cleanup with real files beside it, saved."""
    folder.mkdir(parents=True, exist_ok=True)
    uris = [f"s3://lake/tenant_{i % 3:02}/events_{i % 3:05}/data/day={i % 7}/{i:05}-lost.parquet" for i in range(files)]
    rows = pa.table(
        {
            "uri": uris,
            "table": [f"prod.tenant_{i % 3:02}.events_{i % 3:05}" for i in range(files)],
            "verdict": ["orphan" if i % 5 else "too_new" for i in range(files)],
            "reason": ["no table needs it" if i % 5 else "younger than the grace period" for i in range(files)],
            c.KIND: ["data"] * files,
            c.SIZE: [(i + 1) << 18 for i in range(files)],
            c.MODIFIED: [now - 20 * DAY] * files,
            c.ETAG: [None] * files,
            c.ROOT: [0] * files,
        },
        schema=c.PLAN_ROWS,
    )
    part = folder / "part-0.parquet"
    pq.write_table(rows, part)
    data = part.read_bytes()
    orphans = [i for i in range(files) if i % 5]
    policy = {"delete_mode": "quarantine" if quarantine else "remove", "approval": approval}
    planned = [
        TablePlan(
            f"prod.tenant_{n % 40:02}.events_{n:05}",
            f"{n:08x}-0000-4000-8000-000000000000",
            "iceberg",
            f"s3://lake/tenant_{n:02}/m.json",
            verdicts={
                "live": Tally(900 + n, 9 << 30),
                "orphan": Tally(sum(i % 3 == n for i in orphans), sum((i + 1) << 18 for i in orphans if i % 3 == n)),
                "too_new": Tally(4, 4 << 20),
            },
            changes={"files": sum(i % 3 == n for i in orphans)},
            policy=policy,
        )
        for n in range(tables)
    ]
    refused = TablePlan("prod.tenant_07.events_00007", "u-7", "iceberg", "s3://lake/m7.json", refusal=DAMAGED)
    plan = Plan(
        "orphan-cleanup",
        now,
        now + DAY,
        now - 7 * DAY,
        actor,
        (*planned, refused),
        (),
        (PartFile("part-0.parquet", hashlib.sha256(data).hexdigest(), files, len(data)),),
    ).sealed()
    (folder / PLAN_FILE).write_bytes(plan.dumps())
    ledger.plans.save(plan, f"file://{folder}/")
    return plan


def write_run(
    ledger: Ledger, run_id: str, plan: Plan, now: datetime, *, status: str = "done", quarantine: bool = True
) -> list[str]:
    """A run that used the plan, with two batches in its journal; the addresses of its files."""
    files = [
        JournalFile(f"s3://lake/tenant_00/events_00000/data/{run_id}/{i:05}-lost.parquet", 1 << 20, now, None, "prod.tenant_00.events_00000", "data")
        for i in range(40)
    ]  # fmt: skip
    ledger.plans.claim(plan.plan_id, run_id)
    ledger.runs.start(run_id, plan.job, plan.plan_id, plan.actor)
    ledger.runs.step(run_id, "begin", {"tables": 3, "roots": 3})
    outcome = "quarantined" if quarantine else "deleted"
    for batch, some in enumerate((files[:20], files[20:])):
        ledger.journal.intent(run_id, batch, some)
        ledger.journal.outcomes(run_id, batch, [FileOutcome(file.uri, outcome) for file in some])
    ledger.runs.step(run_id, "verify", {"moved": 0})
    tally = {"files": 40, "bytes": 40 << 20}
    nothing = {"files": 0, "bytes": 0}
    failed = [{"uri": files[0].uri, "code": "LW-STORE-001", "message": "the store answered 503 three times"}]
    ledger.runs.finish(
        run_id,
        status,
        {
            "run_id": run_id,
            "plan_id": plan.plan_id,
            "job": plan.job,
            "status": status,
            "changed": {"files": 40},
            "deleted": nothing if quarantine else tally,
            "hidden": nothing,
            "absent": 0,
            "quarantined": tally if quarantine else nothing,
            "kept": {"live": 900, "too_new": 12},
            "failed": failed if status in ("partial", "failed") else [],
            "restorable_until": (now + 7 * DAY).isoformat() if quarantine else None,
            "refused": [
                {
                    "table": "prod.tenant_07.events_00007",
                    **{k: getattr(DAMAGED, k) for k in ("code", "message", "hint")},
                }
            ],
        },
    )
    return [file.uri for file in files]


def fill(service: Service, folder: Path, tables: int = 200) -> dict[str, str]:
    """Everything that pages show; the ids of what a test asks for by name."""
    ledger, now = service.ledger, service.clock.now()
    ledger.fleet.replace(fleet_rows(tables, now - timedelta(minutes=4)), now - timedelta(minutes=4))
    used = write_plan(ledger, folder / "used", now - 3 * DAY, files=50)
    uris = write_run(ledger, "run-used", used, now)
    freed = write_plan(ledger, folder / "freed", now - 2 * DAY, files=45, quarantine=False)
    write_run(ledger, "run-freed", freed, now, quarantine=False)
    partial = write_plan(ledger, folder / "partial", now - DAY - timedelta(hours=1), files=40)
    write_run(ledger, "run-partial", partial, now, status="partial")
    ready = write_plan(ledger, folder / "ready", now - timedelta(hours=2))
    waiting = write_plan(ledger, folder / "waiting", now - timedelta(hours=1), actor=SCHEDULED, files=70, approval=True)
    ledger.requests.create("req-waiting", RequestKind.RUN, SCHEDULED, job="orphan-cleanup")
    ledger.requests.claim("host-1")
    ledger.requests.finish("req-waiting", "host-1", Ended(RequestStatus.WAITING, plan_id=waiting.plan_id))
    ledger.requests.create("req-running", RequestKind.PLAN, ADA, job="snapshot-expiry")
    ledger.requests.claim("host-1")
    for name, detail in (("load tables", {"tables": tables}), ("compare", None)):
        ledger.requests.event("req-running", name, detail)
    ledger.requests.create("req-queued", RequestKind.PLAN, ADA, job="compaction")
    for n, job in enumerate(("snapshot-expiry", "physical-deletion", "orphan-cleanup")):
        ledger.schedules.put(
            Schedule(
                job,
                now + timedelta(hours=3 + n),
                f"its cron line says 0 {4 + n} * * *",
                now - timedelta(hours=21 - n),
                "req-waiting",
                "done",
            )
        )
    ledger.heartbeats.beat(
        Heartbeat("flink-7", "prod.tenant_00.events_00000", "s3://lake/tenant_00/events_00000/", now, now, 300)
    )
    return {"ready": ready.plan_id, "waiting": waiting.plan_id, "used": used.plan_id, "uri": uris[3], "run": "run-used"}
