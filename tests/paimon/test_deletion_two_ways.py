"""Orphan cleanup and physical deletion decide alike by hashes and by the join in Spark, beside files that are pending."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewarden.jobs import sweeping
from lakewarden.pipeline import settling
from tests.paimon import scenes
from tests.paimon.histories import NAMES, Library, age, plant
from tests.paimon.scenes import Scene
from tests.paimon.site import DELETION, EXPIRY, ORPHANS, Site

pytestmark = pytest.mark.spark


def told(site: Site, job: str) -> dict[str, Any]:
    """What a plan says of every table and of every file that is not simply live."""
    plan = site.plan(job)
    return {
        "files": sorted((row["uri"], row["verdict"], row["kind"]) for row in plan.rows),
        "tables": {t.identifier: (t.refusal, dict(t.changes), dict(t.verdicts)) for t in plan.plan.tables},
    }


def test_hashes_and_the_join_say_the_same(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Site(tmp_path) as site:
        histories = {name: library.copy_of(name, site.warehouse()) for name in NAMES}
        for history in histories.values():
            age(history)
            plant(history)
        plan = site.plan(EXPIRY)
        # Between plan and apply, so that some of what is released is needed again.
        scenes.tags(Scene.of(histories["partition_overwrites"]))
        scenes.branches(Scene.of(histories["consumers"]))
        site.apply(plan)
        quick = {ORPHANS: told(site, ORPHANS)}
        site.later(2)
        with monkeypatch.context() as patched:
            patched.setattr(settling, "MOST_LIVE", -1)
            joined = told(site, DELETION)
        # The quick way comes second: it lets files wait anew that are needed again.
        quick[DELETION] = told(site, DELETION)
        assert joined == quick[DELETION]
        site.later(-2)
        monkeypatch.setattr(sweeping, "MOST_LIVE", -1)
        assert told(site, ORPHANS) == quick[ORPHANS]
    verdicts = {row[1] for row in quick[ORPHANS]["files"]}
    assert {"pending", "orphan", "protected"} <= verdicts
    assert sum(table[2]["live"].files for table in quick[DELETION]["tables"].values()) > 2
