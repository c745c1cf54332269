"""`config check`."""

from __future__ import annotations

from tests.golden.scene import Stage, Words, scene


@scene("config-check/works")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "config", "check", "--no-spark"


@scene("config-check/a-catalog-is-gone", 1)
def _(stage: Stage) -> Words:
    stage.at("new")
    (stage.lake.base / "catalog.db").unlink()
    (stage.lake.base / "catalog.db").mkdir()
    return "config", "check", "--no-spark"


@scene("config-check/wrong-setting", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.batch_size", "many")
    return "config", "check", "--no-spark"
