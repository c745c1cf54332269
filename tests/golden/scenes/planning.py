"""`plan`, `show`, `diff`."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

from lakewarden.jobs.orphan_cleanup import plan as orphan_plan
from lakewarden.wiring import Wiring
from tests.golden.faults import ctrl_c
from tests.golden.moments import ANA
from tests.golden.scene import Stage, Words, scene


def _plan(job: str, moment: str) -> Any:
    def setting(stage: Stage) -> Words:
        stage.at(moment)
        return "plan", job, "--out", "plan"

    return setting


scene("plan/orphan-cleanup", planned_once=True)(_plan("orphans", "new"))
scene("plan/snapshot-expiry", planned_once=True)(_plan("snapshot-expiry", "new"))
scene("plan/partition-expiry", planned_once=True)(_plan("partition-expiry", "new"))
scene("plan/manifest-rewrite", planned_once=True)(_plan("manifest-rewrite", "new"))
scene("plan/tier-handoff", planned_once=True)(_plan("tier-handoff", "released"))
scene("plan/physical-deletion", planned_once=True)(_plan("physical-deletion", "released"))
scene("plan/history", planned_once=True)(_plan("history", "new"))
scene("plan/lineage-check", planned_once=True)(_plan("lineage-check", "new"))
scene("plan/stale-branches", planned_once=True)(_plan("stale-branches", "new"))


def _expire_everything(stage: Stage) -> None:
    """One wrong number for the whole fleet: every partition is old enough."""
    stage.at("new")
    stage.setting("partition_expiry.expiration_hours", "1")


@scene("plan/partitions-braked", planned_once=True)
def _(stage: Stage) -> Words:
    _expire_everything(stage)
    return "plan", "partition-expiry", "--out", "plan"


@scene("plan/compaction", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("compaction.min_input_files", "2")
    stage.setting("compaction.rate_bytes_per_second", "1048576")
    return "plan", "compaction", "--out", "plan"


@scene("plan/compaction-beyond-the-budget", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("compaction.min_input_files", "2")
    stage.setting("compaction.max_bytes_per_run", str(10 << 20))
    return "plan", "compaction", "--select", "lake.web.*", "--out", "plan"


@scene("plan/compaction-settling", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("compaction.min_input_files", "2")
    stage.setting("compaction.settle_minutes", "90")
    return "plan", "compaction", "--select", "lake.web.*", "--out", "plan"


@scene("plan/nothing-to-do", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("cleaned")
    return "plan", "orphans", "--exclude", "lake.finance.*", "--out", "plan"


@scene("plan/nothing-to-expire", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("snapshot_expiry.retain_hours", "2400")
    stage.setting("snapshot_expiry.retain_max", "100")
    return "plan", "snapshot-expiry", "--select", "*.sales.*", "--out", "plan"


@scene("plan/refused", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "plan", "orphans", "--select", "lake.finance.*", "--out", "plan"


@scene("plan/strict", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "plan", "orphans", "--select", "lake.[fs]*", "--strict", "--out", "plan"


@scene("plan/braked", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.max_orphan_share", "0.05")
    return "plan", "orphans", "--select", "lake.sales.*", "--out", "plan"


@scene("plan/quarantine", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.delete_mode", "quarantine")
    return "plan", "orphans", "--select", "lake.sales.*", "--out", "plan"


@scene("plan/seen-too-few-times", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "plan", "orphans", "--select", "lake.sales.*", "--trigger", "schedule", "--out", "plan"


@scene("plan/nothing-selected", 10, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "plan", "orphans", "--select", "lake.nowhere.*", "--out", "plan"


@scene("plan/stopped", 130)
def _(stage: Stage) -> Words:
    stage.at("new")

    def interrupted(*_: object) -> None:
        ctrl_c()
        stage.for_ever()

    stage.patch.setattr(orphan_plan, "load_fleet", interrupted)
    # Spark would start beside it, and be as far as chance has it.
    stage.patch.setattr(Wiring, "_warm_spark", lambda *_, **__: Future())
    return "plan", "orphans", "--out", "plan"


@scene("plan/short-grace", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.grace_period_hours", "1")
    return "plan", "orphans"


@scene("plan/unknown-job", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "plan", "orphan"


@scene("plan/unreachable-catalog", 1, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    (stage.lake.base / "catalog.db").unlink()
    (stage.lake.base / "catalog.db").mkdir()
    return "plan", "orphans"


@scene("show/unused")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "show", stage["orphan-cleanup"]


@scene("show/used")
def _(stage: Stage) -> Words:
    stage.at("cleaned")
    return "show", stage["orphan-cleanup"]


@scene("show/stopped")
def _(stage: Stage) -> Words:
    stage.at("stopped")
    return "show", stage["orphan-cleanup"]


@scene("show/frozen")
def _(stage: Stage) -> Words:
    stage.at("planned")
    with stage.lake.warden() as warden:
        warden.freeze(ANA, "incident 12")
    return "show", stage["quarantine"]


@scene("show/frozen-without-a-reason")
def _(stage: Stage) -> Words:
    stage.at("planned")
    with stage.lake.warden() as warden:
        warden.freeze(ANA)
    return "show", stage["quarantine"]


@scene("show/braked")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "show", stage["braked"]


@scene("show/refused")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "show", stage["refused"]


@scene("show/quarantined")
def _(stage: Stage) -> Words:
    stage.at("quarantined")
    return "show", stage["quarantine"]


@scene("show/expired")
def _(stage: Stage) -> Words:
    stage.at("planned")
    stage.lake.later(hours=25)
    return "show", stage["orphan-cleanup"]


@scene("show/files")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "show", stage["orphan-cleanup"], "--files"


@scene("show/partitions")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "show", stage["partition-expiry"], "--files"


@scene("show/one-verdict")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "show", stage["orphan-cleanup"], "--verdict", "too_new"


@scene("show/edited", 5)
def _(stage: Stage) -> Words:
    stage.at("planned")
    edit(stage["orphan-cleanup"])
    return "show", stage["orphan-cleanup"]


@scene("show/not-found", 10)
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "show", "no-such-plan"


@scene("diff/different")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "diff", stage["orphan-cleanup"], stage["quarantine"]


@scene("diff/same")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "diff", stage["orphan-cleanup"], stage["orphan-cleanup"]


def edit(plan: str) -> None:
    """Change one number of a plan by hand."""
    path = Path(plan.removeprefix("file://")) / "plan.json"
    path.write_text(path.read_text().replace('"files": 4', '"files": 5', 1).replace('"files":4', '"files":5', 1))
