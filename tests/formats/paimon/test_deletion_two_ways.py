"""Orphan cleanup and physical deletion decide alike by hashes and by the join in Spark, beside files that are pending."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakewarden.pipeline.compare import compare as comparing
from tests.formats.paimon import scenes
from tests.formats.paimon.histories import NAMES, Library, age, plant
from tests.formats.paimon.scenes import Scene
from tests.formats.paimon.site import DELETION, EXPIRY, ORPHANS, Site
from tests.support.ledger import PendingFile, release


def told(site: Site, job: str) -> dict[str, Any]:
    """What a plan says of every table and of every file that is not simply live."""
    plan = site.plan(job)
    return {
        "files": sorted((row["uri"], row["verdict"], row["kind"]) for row in plan.rows),
        "tables": {t.identifier: (t.refusal, dict(t.changes), dict(t.verdicts)) for t in plan.plan.tables},
    }


def waiting(site: Site) -> dict[str, PendingFile]:
    """Every file that waits for its deletion, by name."""
    deployment = site.warden._deployment
    rows = [row for page in deployment.ledger.pending.iter_tables(deployment.clock.now()) for row in page.to_pylist()]
    return {row["uri"]: PendingFile("again", **row) for row in rows}


def renewed(site: Site, before: Mapping[str, PendingFile]) -> set[str]:
    """Those whose delay began again since."""
    return {uri for uri, file in waiting(site).items() if file.released_at > before[uri].released_at}


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
        # A table of three directories, in one of which nothing waits: what it needs has to be found there too.
        spared = histories["external_paths"].external[0]
        site.warden._deployment.ledger.pending.strike(uri for uri in waiting(site) if str(spared) in uri)
        quick = {ORPHANS: told(site, ORPHANS)}
        site.later(2)
        released = waiting(site)
        with monkeypatch.context() as patched:
            patched.setattr(comparing, "MOST_LIVE", -1)
            joined = told(site, DELETION)
        by_join = renewed(site, released)
        release(site.warden._deployment.ledger, released.values())
        quick[DELETION] = told(site, DELETION)
        assert joined["files"] == quick[DELETION]["files"]
        tables = quick[DELETION]["tables"]
        assert {name: (said, tables[name]) for name, said in joined["tables"].items() if said != tables[name]} == {}
        needed_again = sum(table[2]["live"].files for table in joined["tables"].values())
        assert (renewed(site, released), len(by_join)) == (by_join, needed_again), "what is needed again waits anew"
        site.later(-2)
        monkeypatch.setattr(comparing, "MOST_LIVE", -1)
        assert told(site, ORPHANS) == quick[ORPHANS]
    verdicts = {row[1] for row in quick[ORPHANS]["files"]}
    assert {"pending", "orphan", "protected"} <= verdicts
    assert sum(table[2]["live"].files for table in quick[DELETION]["tables"].values()) > 2
