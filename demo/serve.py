"""`make serve`: the service over a small lake of its own, with something to look at and something to agree to."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from demo.lake import DAMAGED, build
from lakewarden.ledger.requests import Requests
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import LakewardenError
from lakewarden.model.service import RequestKind, Role
from lakewarden.service.serve import serve
from lakewarden.service.service import Service, open_service

CONFIG = """\
[worker]
id = "demo"

[state]
location = "file://{base}/state"

[spark]
master = "local[2]"

[catalogs.demo]
format = "iceberg"
properties = {{ type = "sql", uri = "sqlite:///{base}/catalog.db", warehouse = "file://{base}/warehouse" }}

# Somebody agrees on the page before anything is deleted, and it can be brought back for a week.
[orphan_cleanup]
enabled = true
dry_run = false
approval = true
delete_mode = "quarantine"
confirmations = 1
max_orphan_share = 1.0

[snapshot_expiry]
enabled = true
dry_run = false
retain_hours = 24

[physical_deletion]
enabled = true

[compaction]
enabled = true
settle_minutes = 0

[service]
observe_minutes = 1
"""
# What the service is asked to do when it is first started, in this order.
FIRST = (
    (RequestKind.OBSERVE, "observe"),
    (RequestKind.RUN, "orphan-cleanup"),
    (RequestKind.RUN, "snapshot-expiry"),
    (RequestKind.PLAN, "compaction"),
    (RequestKind.FORECAST, None),
    (RequestKind.OBSERVE, "observe"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("demo-service"), help="where the lake is, or is built")
    parser.add_argument("--port", type=int, default=None)
    said = parser.parse_args()
    base: Path = said.dir.resolve()
    config = base / "lakewarden.toml"
    if not config.exists():
        if base.exists() and any(base.iterdir()):
            print(f"{base} is not empty, and is left alone", file=sys.stderr)
            return 64
        print(f"Building a lake in {base} …", file=sys.stderr)
        base.mkdir(parents=True, exist_ok=True)
        # A damaged table holds back its neighbours' orphans, and nothing would be left to agree to.
        build(base).catalog.drop_table(DAMAGED)
        config.write_text(CONFIG.format(base=base), encoding="utf-8")
    service = open_service(str(config))
    ask(service.ledger.requests, service)
    greet(service)
    try:
        return serve(str(config), port=said.port)
    except LakewardenError as error:
        print(f"{error}\n{error.hint}", file=sys.stderr)
        return int(error.exit_code)


def ask(requests: Requests, service: Service) -> None:
    """Ask for what a first visitor wants to see, once."""
    actor = Actor("schedule", service.settings.worker.id, Trigger.SCHEDULE)
    for number, (kind, job) in enumerate(FIRST):
        arguments = {"enabled_only": True} if kind is RequestKind.RUN else {}
        requests.create(
            service.new_id(), kind, actor, job=job, arguments=arguments, idempotency_key=f"@schedule/demo/{number}"
        )


def greet(service: Service) -> None:
    """Tokens to log in with, shown when they are made."""
    if service.ledger.tokens.any_counts():
        return
    for role in (Role.OPERATOR, Role.APPROVER):
        made = service.ledger.tokens.create(f"demo-{role}", role, created_by="make serve")
        print(f"Log in as {role}: {made}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
