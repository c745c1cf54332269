"""Beside the night: what snapshots say is archived before they expire, and asked for when they are gone."""

from __future__ import annotations

from dataclasses import dataclass

from demo.lake import CATALOG, DemoLake
from demo.terminal import Terminal, expect

SOURCE, MADE = "shop.customers", "shop.best_customers"


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot that the night takes, and the one that was made from it."""

    source: int
    target: int


def archive(lake: DemoLake, terminal: Terminal) -> Made:
    """Make a table from another, and archive every snapshot."""
    made = build(lake)
    terminal.title("Before snapshots expire: what they say of themselves is archived")
    terminal.plan_and_apply("history", "p1")
    return made


def build(lake: DemoLake) -> Made:
    """A table that was made from another, with its lineage in the commit."""
    source = lake.catalog.load_table(SOURCE)
    old = source.snapshots()[0].snapshot_id
    rows = source.scan(snapshot_id=old).to_arrow().slice(0, 3)
    made = lake.catalog.create_table(MADE, rows.schema)
    made.append(
        rows,
        snapshot_properties={
            "writer.id": "best-customers",
            "trigger.type": "manual",
            "trigger.operator": "ana",
            "input.snapshot_ids": f"{CATALOG}.{SOURCE}@{old}",
        },
    )
    target = made.current_snapshot()
    assert target is not None
    return Made(old, target.snapshot_id)


def ask(lake: DemoLake, terminal: Terminal, made: Made) -> None:
    """The source has expired by now; the archive still knows what was made from it."""
    left = {snapshot.snapshot_id for snapshot in lake.catalog.load_table(SOURCE).snapshots()}
    expect(made.source not in left, f"snapshot {made.source} was to expire this night")
    terminal.title("An incident: what was made from a snapshot that is gone, and by whom?")
    terminal.run("audit", "downstream", str(made.source), "--graph", "incident.svg")
    terminal.run_in_turn(("audit", "who", str(made.target)), ("audit", "verify"))
    told = terminal.log.read_text(encoding="utf-8")
    expect(f"{CATALOG}.{MADE}@{made.target}" in told, "the snapshot that was made from it was not found")
    terminal.held("found in the archive: the table made from it, and ana; the journal is whole")
