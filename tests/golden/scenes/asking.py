"""Commands that ask and change nothing: `tables`, `policy`, `doctor`, `explain`, `audit`, `runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.golden.moments import ANA
from tests.golden.scene import Stage, Words, scene


def _at(moment: str, *words: str) -> Any:
    def setting(stage: Stage) -> Words:
        stage.at(moment)
        return words

    return setting


scene("tables/some")(_at("new", "tables"))
scene("policy/defaults-and-overrides")(_at("new", "policy", "stream.web.events"))
scene("policy/not-found", 10)(_at("new", "policy", "lake.sales.nothing"))
scene("doctor/new")(_at("new", "doctor"))
scene("doctor/planned")(_at("planned", "doctor"))
scene("doctor/busy")(_at("busy", "doctor"))
scene("runs/none")(_at("new", "runs"))
scene("runs/some")(_at("busy", "runs"))
scene("runs/not-found", 10)(_at("busy", "runs", "0123456789abcdef"))
scene("audit-verify/whole")(_at("busy", "audit", "verify"))
scene("audit-verify/not-found", 10)(_at("busy", "audit", "verify", "0123456789abcdef"))


def _run(name: str) -> Any:
    def setting(stage: Stage) -> Words:
        stage.at("busy")
        return "runs", stage[name]

    return setting


scene("runs/dry-run")(_run("dry run"))
scene("runs/quarantine")(_run("run of quarantine"))
scene("runs/restore")(_run("restore"))
scene("runs/snapshot-expiry")(_run("run of snapshot-expiry"))
scene("runs/partition-expiry")(_run("run of partition-expiry"))
scene("runs/tier-handoff")(_run("run of tier-handoff"))
scene("runs/stopped")(_run("stopped"))


@scene("doctor/frozen")
def _(stage: Stage) -> Words:
    stage.at("planned")
    with stage.lake.warden() as warden:
        warden.freeze(ANA, "incident 12")
    return ("doctor",)


@scene("doctor/in-doubt")
def _(stage: Stage) -> Words:
    """A table was dropped behind everybody's back, and its files are there."""
    from pyiceberg.catalog.sql import SqlCatalog

    stage.at("planned")
    base = stage.lake.base
    catalog = SqlCatalog("lake", uri=f"sqlite:///{base}/catalog.db", warehouse=f"file://{base}/warehouse")
    catalog.drop_table("sales.items")
    catalog.close()
    return ("doctor",)


@scene("audit-verify/broken", 1)
def _(stage: Stage) -> Words:
    stage.at("cleaned")
    for head in (stage.lake.base / "state").glob("journal-heads/*"):
        head.unlink()
    return "audit", "verify"


def _file(moment: str, name: str, *command: str) -> Any:
    def setting(stage: Stage) -> Words:
        stage.at(moment)
        [path] = stage.lake.base.glob(name) if "*" in name else [stage.lake.base / name]
        return *(command or ("explain",)), f"file://{path}"

    return setting


ORPHAN = "warehouse/sales/orders/data/day=2026-01-10/part-00000-crashed.parquet"
YOUNG = "warehouse/sales/orders/data/day=2026-01-12/part-00000-being-written.parquet"
HIDDEN = "warehouse/sales/orders/data/_temporary/part-00000.parquet"
scene("explain/orphan")(_file("planned", ORPHAN))
scene("explain/unseen")(_file("new", ORPHAN))
scene("explain/deleted")(_file("cleaned", ORPHAN))
scene("explain/quarantined")(_file("quarantined", ORPHAN))
scene("explain/too-new")(_file("planned", YOUNG))
scene("explain/protected")(_file("planned", HIDDEN))
scene("explain/live-metadata")(_file("planned", "warehouse/sales/orders/metadata/00003-*.metadata.json"))
scene("explain/gc-disabled")(_file("planned", "warehouse/finance/invoices/data/*.parquet"))
scene("explain/not-found", 10)(_file("planned", "warehouse/nothing.parquet"))
scene("explain/live")(_file("planned", "warehouse/sales/orders/data/day=2026-01-12/00000-*.parquet"))
scene("audit-who/deleted")(_file("cleaned", ORPHAN, "audit", "who"))
scene("audit-who/nobody")(_file("planned", ORPHAN, "audit", "who"))
scene("audit-origin/file")(
    _file("planned", "warehouse/sales/orders/data/day=2026-01-12/00000-*.parquet", "audit", "origin")
)
scene("audit-origin/not-found", 10)(_file("planned", ORPHAN, "audit", "origin"))
scene("audit-origin/no-snapshot", 10)(_at("planned", "audit", "origin", "lake.sales.orders@1"))
scene("audit-downstream/not-found", 10)(_at("planned", "audit", "downstream", "1234567890123456789"))
scene("audit-downstream/bad-graph", 64)(_at("planned", "audit", "downstream", "1", "--graph", "graph.png"))


@scene("explain/pending")
def _(stage: Stage) -> Words:
    stage.at("released")
    with stage.lake.warden() as warden:
        uris = sorted(uri for page in warden._deployment.ledger.pending.iter_uris() for uri in page)
    return "explain", next(uri for uri in uris if Path(uri).suffix == ".parquet" and "/orders/" in uri)


@scene("explain/not-an-address", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "explain", "http://example.com/x"
