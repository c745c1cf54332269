"""Histories that are no chain: a merged branch leaves ids in a row whose commits have nothing to do with each other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.formats.paimon.histories import age, backdate
from tests.formats.paimon.reading import Ref, open_table, rows_by_pypaimon
from tests.formats.paimon.register import some
from tests.formats.paimon.site import DELETION, EXPIRY, Site
from tests.formats.paimon.story import History, Story

pytestmark = pytest.mark.usefixtures("spark")

JANUARY = "2024-01-01"
CHANGELOGS = {
    "bucket": "1",
    "changelog-producer": "none",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "1 s",
    "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "20",
    "changelog.time-retained": "1 h",
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as site:
        yield site


def aged(story: Story, site: Site) -> None:
    history = History(story.name, "as it is", site.warehouse(), story.location, {})
    backdate(history, 12)
    age(history)


def merge(story: Story) -> None:
    """The branch is merged and removed with its tags, as people do."""
    story.fast_forward_by_java("b")
    shutil.rmtree(story.location / "branch" / "branch-b")
    for tag in (story.location / "tag").glob("tag-*"):
        open_table(story.location).delete_tag(tag.name.removeprefix("tag-"))


def retain(site: Site, snapshots: int) -> None:
    site.close()
    site.sections["snapshot_expiry"] = {"retain_min": snapshots, "retain_max": snapshots, "retain_hours": 0}


def expire_and_delete(site: Site) -> None:
    assert site.run(EXPIRY).failed == ()
    site.later(2)
    assert site.run(DELETION).failed == ()


def test_a_branch_whose_first_snapshots_had_expired(site: Site) -> None:
    story = Story.begin(site.warehouse(), "t", partition_keys=["dt"])
    story.append(some(JANUARY, 0))
    story.tag("t1", 1)
    story.branch("b", "t1")
    story.overwrite({"dt": JANUARY}, some(JANUARY, 900))
    for number, day in enumerate(("05", "06", "07")):
        story.append(some(f"2024-01-{day}", 100 * number + 500), branch="b")
    aged(story, site)
    retain(site, 2)
    expire_and_delete(site)
    merge(story)
    before = rows_by_pypaimon(story.location, Ref(snapshot=4))

    site.later(24)
    retain(site, 3)
    expire_and_delete(site)

    assert rows_by_pypaimon(story.location, Ref(snapshot=4)) == before


def test_a_branch_of_commits_that_main_rolled_back(site: Site) -> None:
    story = Story.begin(site.warehouse(), "t", partition_keys=["dt"])
    for day in ("01", "02", "03"):
        story.append(some(f"2024-01-{day}", 0))
    story.tag("t3", 3)
    story.branch("b", "t3")
    story.append(some("2024-01-04", 0), branch="b")
    story.roll_back(1, by_java=True)
    story.overwrite({"dt": JANUARY}, some(JANUARY, 900))
    merge(story)
    aged(story, site)
    before = rows_by_pypaimon(story.location, Ref(snapshot=4))

    retain(site, 3)
    expire_and_delete(site)

    assert rows_by_pypaimon(story.location, Ref(snapshot=4)) == before


def test_a_tag_comes_back_after_another_commit_while_files_go(site: Site) -> None:
    """At the commit all manifests were read; what the tag shows is in none that is new."""
    site.sections["physical_deletion"]["batch_size"] = 1
    story = Story.begin(site.warehouse(), "t", partition_keys=["dt"])
    story.append(some(JANUARY, 0))
    story.append(some("2024-01-05", 0))
    story.overwrite({"dt": JANUARY}, some(JANUARY, 900))
    story.overwrite({"dt": "2024-01-05"}, some("2024-01-05", 900))
    story.append(some("2024-01-09", 0))
    aged(story, site)
    saved = (story.location / "snapshot" / "snapshot-3").read_bytes()
    before = rows_by_pypaimon(story.location, Ref(snapshot=3))
    site.run(EXPIRY)
    site.later(2)
    seen = site.plan(DELETION)
    order = sorted(row["uri"] for row in seen.rows)
    wanted = next(place for place, uri in enumerate(order) if "dt=2024-01-05" in uri)
    assert wanted > 0
    story.append(some("2024-01-10", 0))
    tag = story.location / "tag" / "tag-back"

    def come_back(stage: str, done: int, total: int) -> None:
        if (done, total) == (wanted, len(order)) and not tag.exists():
            tag.parent.mkdir(exist_ok=True)
            tag.write_bytes(saved)

    site.apply(seen, progress=come_back)

    assert rows_by_pypaimon(story.location, Ref(tag="back")) == before


def test_a_consumer_of_changelogs_that_registers_after_the_plan(site: Site) -> None:
    site.sections["snapshot_expiry"] = {}
    story = Story.begin(site.warehouse(), "t", primary_keys=["dt", "id"], options=CHANGELOGS)
    for number in range(5):
        story.append(some(JANUARY, 100 * number))
    aged(story, site)
    site.run(EXPIRY)
    site.later(0.1)
    seen = site.plan(EXPIRY)
    assert seen.plan.tables[0].changes == {"snapshots": 0, "changelogs": 3}

    story.consumer("slow", 1)
    run = site.apply(seen)

    assert [failed.code for failed in run.failed] == ["LW-PLAN-005"]
    assert (story.location / "changelog" / "changelog-1").exists()
    (story.location / "consumer" / "consumer-slow").unlink()
    assert site.run(EXPIRY).changed == {"snapshots": 0, "changelogs": 3}


def test_a_consumer_that_guards_only_changelogs_lets_snapshots_go(site: Site) -> None:
    site.sections["snapshot_expiry"] = {}
    longer = {"changelog.num-retained.min": "20", "changelog.time-retained": "30 d", "consumer.changelog-only": "true"}
    story = Story.begin(site.warehouse(), "t", primary_keys=["dt", "id"], options=CHANGELOGS | longer)
    for number in range(4):
        story.append(some(JANUARY, 100 * number))
    story.consumer("slow", 2)
    aged(story, site)
    run = site.run(EXPIRY)
    assert (run.failed, run.changed["snapshots"]) == ((), 3)
