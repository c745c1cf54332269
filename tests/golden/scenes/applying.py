"""`apply` and `restore`."""

from __future__ import annotations

from typing import Any

from tests.golden.faults import after_first_batch, ctrl_c, lease_of_another, suspended, undeletable
from tests.golden.moments import ANA
from tests.golden.scene import Stage, Words, scene
from tests.golden.scenes.planning import edit


def _apply(plan: str, moment: str, *more: str) -> Any:
    def setting(stage: Stage) -> Words:
        stage.at(moment)
        return "apply", stage[plan], "--yes", *more

    return setting


scene("apply/orphan-cleanup")(_apply("orphan-cleanup", "planned"))
scene("apply/snapshot-expiry")(_apply("snapshot-expiry", "planned"))
scene("apply/partition-expiry")(_apply("partition-expiry", "planned"))
scene("apply/manifest-rewrite", planned_once=True)(_apply("manifest-rewrite", "planned"))
scene("apply/tier-handoff")(_apply("tier-handoff", "released"))
scene("apply/physical-deletion")(_apply("physical-deletion", "released"))
scene("apply/nothing-to-do")(_apply("nothing", "planned"))
scene("apply/refused", 4)(_apply("refused", "planned"))
scene("apply/braked", 4)(_apply("braked", "planned"))
scene("apply/brake-lifted")(_apply("braked", "planned", "--override-brake", "orphan-share"))
scene("apply/unknown-brake", 64)(_apply("braked", "planned", "--override-brake", "share"))
scene("apply/quarantined")(_apply("quarantine", "planned"))
scene("apply/used", 5)(_apply("orphan-cleanup", "cleaned"))
scene("apply/resumed")(_apply("orphan-cleanup", "stopped"))


@scene("apply/expired", 5)
def _(stage: Stage) -> Words:
    stage.at("planned")
    stage.lake.later(hours=25)
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/expired-midway", 5)
def _(stage: Stage) -> Words:
    stage.at("stopped")
    stage.lake.later(hours=25)
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/edited", 5)
def _(stage: Stage) -> Words:
    stage.at("planned")
    edit(stage["orphan-cleanup"])
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/not-found", 10)
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "apply", "no-such-plan", "--yes"


@scene("apply/partial", 3)
def _(stage: Stage) -> Words:
    stage.at("planned")
    undeletable(stage.patch, "part-00001-crashed")
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/frozen", 4)
def _(stage: Stage) -> Words:
    stage.at("planned")
    with stage.lake.warden() as warden:
        warden.freeze(ANA, "incident 12")
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/frozen-midway", 4)
def _(stage: Stage) -> Words:
    stage.at("planned")
    warden = stage.hold(stage.lake.warden())
    after_first_batch(stage.patch, lambda: warden.freeze(ANA, "incident 12"))
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/stopped", 130)
def _(stage: Stage) -> Words:
    stage.at("planned")
    after_first_batch(stage.patch, ctrl_c)
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/lease-held", 11)
def _(stage: Stage) -> Words:
    stage.at("planned")
    stage.hold(lease_of_another(stage.lake, f"root/file://{stage.lake.base}/warehouse/sales/orders/"))
    return "apply", stage["orphan-cleanup"], "--yes", "--wait", "0"


@scene("apply/lease-lost", 1)
def _(stage: Stage) -> Words:
    stage.at("planned")
    after_first_batch(stage.patch, suspended(stage.lake))
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/file-changed")
def _(stage: Stage) -> Words:
    """Another writer wrote one of the files anew after the plan was made."""
    stage.at("planned")
    path = stage.lake.base / "warehouse/sales/orders/data/day=2026-01-10/part-00001-crashed.parquet"
    path.unlink()
    path.write_bytes(b"another writer's")
    return "apply", stage["orphan-cleanup"], "--yes"


@scene("apply/nobody-to-ask", 64)
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "apply", stage["orphan-cleanup"]


@scene("apply/asked-and-refused", 64, answer="n\n")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "apply", stage["orphan-cleanup"]


@scene("apply/asked-about-quarantine", answer="y\n")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "apply", stage["quarantine"]


@scene("apply/asked-about-partitions", answer="y\n")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "apply", stage["partition-expiry"]


@scene("restore/done")
def _(stage: Stage) -> Words:
    stage.at("quarantined")
    return "restore", stage["run"]


@scene("restore/partial", 3)
def _(stage: Stage) -> Words:
    stage.at("quarantined")
    place = stage.lake.base / "warehouse/sales/items/data/part-00000-crashed.parquet"
    place.write_bytes(b"somebody else's")
    return "restore", stage["run"]


@scene("restore/nothing-in-quarantine", 1)
def _(stage: Stage) -> Words:
    stage.at("cleaned")
    return "restore", stage["run"]


@scene("restore/not-found", 10)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "restore", "0123456789abcdef"


@scene("restore/from-cold")
def _(stage: Stage) -> Words:
    stage.at("busy")
    return "restore", "--from-cold", _first_cold(stage), "--as", "lake.sales.back_again"


@scene("restore/from-cold-name-taken", 1)
def _(stage: Stage) -> Words:
    stage.at("busy")
    return "restore", "--from-cold", _first_cold(stage), "--as", "lake.sales.items"


@scene("restore/from-cold-not-found", 10)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "restore", "--from-cold", "1234567890123456789", "--as", "lake.sales.back_again"


@scene("restore/drill")
def _(stage: Stage) -> Words:
    stage.at("quarantined")
    return "restore", "--drill"


@scene("restore/drill-failed", 1)
def _(stage: Stage) -> Words:
    """What lies in the trash is not what was put there."""
    stage.at("quarantined")
    for path in stage.lake.base.rglob("*-crashed.parquet"):
        if "trash" in str(path):
            path.write_bytes(b"x" * path.stat().st_size)
    return "restore", "--drill"


def _first_cold(stage: Stage) -> str:
    """The oldest snapshot of a table that tier-handoff has copied."""
    import json

    [metadata] = stage.lake.base.glob("cold/lake/sales/orders-*/metadata/v1.metadata.json")
    snapshots = json.loads(metadata.read_text())["snapshots"]
    return str(min(snapshots, key=lambda found: found["sequence-number"])["snapshot-id"])


@scene("restore/usage", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "restore", "--from-cold", "123"
