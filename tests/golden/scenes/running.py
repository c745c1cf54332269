"""`run JOB`, `run JOB…|all`, `plan all`."""

from __future__ import annotations

from tests.golden.faults import after_first_batch, ctrl_c, undeletable
from tests.golden.moments import ANA
from tests.golden.scene import Stage, Words, scene

SECTIONS = (
    "orphan_cleanup",
    "snapshot_expiry",
    "physical_deletion",
    "partition_expiry",
    "tier_handoff",
)


def _enabled(stage: Stage, *sections: str, dry_run: bool = False) -> None:
    for section in sections or SECTIONS:
        stage.setting(f"{section}.enabled", "true")
        stage.setting(f"{section}.dry_run", str(dry_run).lower())


@scene("run/dry-run", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "run", "orphans"


@scene("run/done", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.dry_run", "false")
    return "run", "orphans"


@scene("run/quarantined", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.dry_run", "false")
    stage.setting("orphan_cleanup.delete_mode", "quarantine")
    return "run", "orphans"


@scene("run/nothing-to-do", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "run", "orphans", "--select", "lake.web.*"


@scene("run/refused", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "run", "orphans", "--select", "lake.finance.*"


@scene("run/strict", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.dry_run", "false")
    return "run", "orphans", "--strict"


@scene("run/braked", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.dry_run", "false")
    stage.setting("orphan_cleanup.max_orphan_share", "0.05")
    return "run", "orphans", "--select", "lake.sales.*"


@scene("run-all/nothing-enabled", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "run", "all"


@scene("run-all/dry-run", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage, dry_run=True)
    return "run", "all"


@scene("run-all/done", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage)
    return "run", "all"


@scene("run-all/a-job-refuses", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage)
    stage.setting("tier_handoff.destination", f"file://{stage.lake.base}/lakewarden.toml/cold")
    return "run", "all"


@scene("run-all/quarantined", planned_once=True)
def _(stage: Stage) -> Words:
    """After the night it says how each thing is taken back that a command can take back."""
    stage.at("new")
    _enabled(stage, "orphan_cleanup", "snapshot_expiry")
    stage.setting("orphan_cleanup.delete_mode", "quarantine")
    return "run", "all", "--exclude", "lake.finance.*"


@scene("run-all/braked", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage, "orphan_cleanup", "snapshot_expiry")
    stage.setting("orphan_cleanup.max_orphan_share", "0.05")
    return "run", "all", "--select", "lake.sales.*"


@scene("run-all/partial", 3, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage, "orphan_cleanup", "snapshot_expiry")
    undeletable(stage.patch, "part-00001-crashed")
    return "run", "all", "--select", "lake.sales.*"


@scene("run-all/stopped", 130)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage, "orphan_cleanup", "snapshot_expiry")
    after_first_batch(stage.patch, ctrl_c)
    return "run", "all", "--select", "lake.sales.*"


@scene("run-all/frozen", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage, "orphan_cleanup", "snapshot_expiry")
    with stage.lake.warden() as warden:
        warden.freeze(ANA, "incident 12")
    return "run", "all"


@scene("run-all/named-jobs", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("snapshot_expiry.dry_run", "false")
    return "run", "orphans", "snapshot-expiry", "--select", "lake.sales.*"


@scene("run-all/strict", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage)
    return "run", "all", "--strict"


@scene("plan-all/some", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage, dry_run=True)
    return "plan", "all", "--out", "plans"


@scene("plan-all/quarantine", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    _enabled(stage, "orphan_cleanup", dry_run=True)
    stage.setting("orphan_cleanup.delete_mode", "quarantine")
    return "plan", "all", "--select", "lake.sales.*", "--out", "plans"


@scene("plan/changes-wait", 2, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "plan", "orphans", "--select", "lake.sales.items", "--detailed-exitcode", "--out", "plan"
