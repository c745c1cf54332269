"""`make serve`: the service over a small lake of its own, a week after it began: something on every page, and something
to agree to."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

import lakewarden
from demo import week
from demo.lake import CATALOG, DAMAGED
from demo.setup import NAME, set_up
from lakewarden.ledger.requests import SCHEDULED, Requests
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import LakewardenError
from lakewarden.model.service import RequestKind, Role
from lakewarden.service.schedule.slots import DRILL
from lakewarden.service.serve import serve
from lakewarden.service.service import Service, open_service

POLICY = f"""\
# Somebody agrees on the page before anything is deleted, and it can be brought back for a week. Few files a batch and
# a pause between batches: there is time to watch, and to cancel.
[orphan_cleanup]
enabled = true
dry_run = false
approval = true
delete_mode = "quarantine"
confirmations = 1
max_orphan_share = 1.0
batch_size = 2
rate_limit_ms = 1000

[snapshot_expiry]
enabled = true
dry_run = false
retain_hours = 24

[physical_deletion]
enabled = true
dry_run = false

[history]
enabled = true
dry_run = false

[compaction]
enabled = true
settle_minutes = 0

[stale_branches]
enabled = true

[service]
observe_minutes = 1

[[overrides]]
match = "{CATALOG}.shop.*"
[overrides.snapshot_expiry]
retain_hours = 336

[[overrides]]
match = "{CATALOG}.web.clicks"
[overrides.snapshot_expiry]
retain_hours = 2400
"""
# What the service is asked to do when it is first started, in this order: of a job, or of a table.
FIRST = (
    (RequestKind.OBSERVE, "observe"),
    (RequestKind.RUN, "orphan-cleanup"),
    (RequestKind.PLAN, "compaction"),
    (RequestKind.PLAN, "stale-branches"),
    (RequestKind.PLAN, "snapshot-expiry"),
    *((RequestKind.FORECAST, f"{CATALOG}.{name}") for name in ("shop.orders", "web.clicks", week.SESSIONS, week.PINGS)),
    (RequestKind.RESTORE_DRILL, DRILL),
    (RequestKind.OBSERVE, "observe"),
)
WRITER, WRITES = "clickstream", f"{CATALOG}.web.clicks"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("demo-service"), help="where the lake is, or is built")
    parser.add_argument("--port", type=int, default=None)
    said = parser.parse_args()
    base: Path = said.dir.resolve()
    config = base / NAME
    if not config.exists():
        if base.exists() and any(base.iterdir()):
            print(f"{base} is not empty, and is left alone", file=sys.stderr)
            return 64
        build(base)
    service = open_service(str(config))
    ask(service.ledger.requests, service)
    greet(service)
    with ExitStack() as open_things:
        worker = open_things.enter_context(lakewarden.open(str(config)))
        open_things.enter_context(worker.heartbeat(WRITES, writer=WRITER))
        try:
            return serve(str(config), port=said.port)
        except LakewardenError as error:
            print(f"{error}\n{error.hint}", file=sys.stderr)
            return int(error.exit_code)


def build(base: Path) -> None:
    """The lake, and the week before today."""
    _tell(f"Building a lake in {base}, which takes a minute")
    base.mkdir(parents=True, exist_ok=True)
    lake, _ = set_up(base, POLICY)
    # A damaged table holds back its neighbours' orphans, and nothing would be left to agree to.
    lake.catalog.drop_table(DAMAGED)
    week.pass_by(base / NAME, lake, _tell)


def ask(requests: Requests, service: Service) -> None:
    """Ask for what a first visitor wants to see, once."""
    actor = Actor("schedule", service.settings.worker.id, Trigger.SCHEDULE)
    for number, (kind, what) in enumerate(FIRST):
        arguments: dict[str, object] = {"enabled_only": True} if kind is RequestKind.RUN else {}
        job: str | None = what
        if kind is RequestKind.FORECAST:
            job, arguments = None, {"select": [what]}
        requests.create(
            service.new_id(), kind, actor, job=job, arguments=arguments, idempotency_key=f"{SCHEDULED}demo/{number}"
        )


def greet(service: Service) -> None:
    """Tokens to log in with, shown when they are made."""
    if service.ledger.tokens.any_counts():
        return
    for role in Role:
        made = service.ledger.tokens.create(f"demo-{role}", role, created_by="make serve")
        print(f"Log in as {role}: {made}", file=sys.stderr)


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
