"""Orphan cleanup of every history in one plan, beside Java's own: the same files go, and every ref still shows its rows."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakewarden.model.actor import Trigger
from lakewarden.model.run import RunResult
from tests.formats.paimon import java
from tests.formats.paimon.histories import NAMES, OLD, History, Library, age, plant
from tests.formats.paimon.site import ORPHANS, Site, check_rows, name_of
from tests.support.deployments import Seen

OPEN = tuple(name for name in NAMES if name != "append_deletion_vectors")

ODD = "partition_overwrites"
"""The history that has a second copy, in the catalog `odd`, with the files below."""

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

ONLY_OURS = (
    # Java looks for unfinished writes in snapshot/ and changelog/ alone.
    "tag/.tag-x.{}.tmp",
    "schema/.schema-1.{}.tmp",
    "consumer/.consumer-c.{}.tmp",
)
BOTH = (
    # What a killed process of ours leaves where it was about to write.
    "snapshot/.lakewarden-0123456789abcdef.tmp",
    "manifest/.lakewarden-0123456789abcdef.tmp",
)
ONLY_JAVA = (
    # Java takes whatever is old and unnamed; ours only names that the format writes, which hold a uuid.
    "dt=2024-01-01/bucket-0/notes.txt",
    "dt=2024-01-01/bucket-0/data-1.parquet",
    "manifest/notes",
    "manifest/manifest-list-mine",
    "index/index-7",
    "statistics/stat-1",
    "snapshot/notes",
    # Later versions leave these alone as ours does: no manifest names them.
    "dt=2024-01-01/bucket-0/data-{}-0.managed.blob",
)
NEITHER = (
    "tag/notes",
    "service/query-1",
    "elsewhere/data-{}-0.parquet",
    "README",
)


@dataclass(frozen=True)
class Swept:
    """One plan over all of them, what Java would have done, and what was left."""

    site: Site
    histories: dict[str, History]
    odd: History
    expected: dict[str, set[Path]]
    by_java: dict[str, set[Path]]
    before: dict[str, set[str]]
    plan: Seen
    result: RunResult


@pytest.fixture(scope="module")
def swept(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swept]:
    with Site(tmp_path_factory.mktemp("orphans"), names=("lake", "odd")) as site:
        histories = {name: library.copy_of(name, site.warehouse()) for name in NAMES}
        odd = library.copy_of(ODD, site.warehouse("odd"))
        expected = {}
        for name, history in histories.items():
            age(history)
            expected[name] = plant(history) | {history.location / path for path in history.leftovers}
        age(odd)
        leave(odd, *BOTH, *ONLY_OURS, *ONLY_JAVA, *NEITHER)
        by_java = {name: set(java.orphans(histories[name].location).paths) for name in OPEN}
        by_java["odd"] = set(java.orphans(odd.location).paths)
        before = {name: history.files() for name, history in histories.items()}
        plan = site.plan(ORPHANS)
        yield Swept(site, histories, odd, expected, by_java, before, plan, site.apply(plan))


def leave(history: History, *names: str, hours: float = OLD) -> list[Path]:
    """Old files with these names in the table; braces take a uuid."""
    paths = [history.location / name.format(uuid.uuid4()) for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0" * 64)
        os.utime(path, (time.time() - hours * 3600,) * 2)
    return paths


def test_one_plan_for_all_of_them_and_every_orphan_went(swept: Swept) -> None:
    assert [table.refusal for table in swept.plan.plan.tables] == [None] * (len(NAMES) + 1)
    count = sum(map(len, swept.expected.values())) + len(BOTH) + len(ONLY_OURS)
    assert (swept.result.status, swept.result.deleted.files, swept.result.absent) == ("done", count, 0)
    assert swept.site.warden.audit_verify()["ok"]


@pytest.mark.parametrize("name", NAMES)
def test_exactly_the_orphans_are_planned(swept: Swept, name: str) -> None:
    planned = swept.plan.orphans(name_of(swept.histories[name]))
    assert planned == swept.expected[name]
    if name in OPEN:
        assert planned == swept.by_java[name]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_else_goes(swept: Swept, name: str) -> None:
    history = swept.histories[name]
    gone = {path for path in swept.before[name] if not (history.location / path).exists()}
    assert {history.location / path for path in gone} == swept.expected[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_ref_reads_back(swept: Swept, name: str) -> None:
    check_rows(swept.histories[name])


def test_where_ours_and_javas_differ(swept: Swept) -> None:
    def shape(path: Path) -> str:
        return UUID.sub("{}", str(path.relative_to(swept.odd.location)))

    ours = {shape(path) for path in swept.plan.orphans(name_of(swept.odd, "odd"))}
    javas = {shape(path) for path in swept.by_java["odd"]}
    assert ours == {*BOTH, *ONLY_OURS}
    assert javas == {*BOTH, *ONLY_JAVA}
    left = {shape(path) for path in swept.odd.location.rglob("*")}
    assert left >= {*ONLY_JAVA, *NEITHER}
    assert not left & {*BOTH, *ONLY_OURS}


def test_what_is_young_or_being_written_stays(library: Library, tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        young, written = (library.copy_of(name, site.warehouse()) for name in ("plain_appends", "key_upgrades"))
        age(young)
        age(written)
        planted = plant(young, hours=23), plant(written, hours=40)
        with site.warden.heartbeat(name_of(written), ttl_seconds=3600):
            os.utime(new := min(planted[1]), None)
            plan = site.plan(ORPHANS)
        assert not plan.orphans(name_of(young))
        assert planted[0] <= plan.judged("too_new", name_of(young))
        assert plan.orphans(name_of(written)) == planted[1] - {new}


def test_empty_directories_go_from_the_bottom_up(library: Library, tmp_path: Path) -> None:
    """Java's dry run does not tell of directories; its cleanup removes the same ones."""
    with Site(tmp_path / "site") as site:
        ours, javas = (library.copy_of("truncated_partitions", home) for home in (site.warehouse(), tmp_path / "java"))
        kept = ("dt=new/hour=2/bucket-0", "dt=busy/hour=3/bucket-0", "unknown/deep", "dt=b/other")
        for history in (ours, javas):
            for name in ("dt=gone/hour=1/bucket-0", "dt=gone/hour=2", "dt=shell", *kept):
                (history.location / name).mkdir(parents=True)
            age(history)
            os.utime(history.location / "dt=new/hour=2/bucket-0")
            (history.location / "dt=busy/hour=3/bucket-0/somebody's").touch()
        result = site.run(ORPHANS)
        assert (result.status, result.failed) == ("done", ())
        java.orphans(javas.location, dry_run=False)
        left = directories(ours)
        assert left >= set(kept)
        assert not {name for name in left if name.startswith(("dt=gone", "dt=shell"))}
        # Java has no notion of directories that the format did not make, and minds no age of a parent.
        assert directories(javas) <= left
        check_rows(ours)


def directories(history: History) -> set[str]:
    return {str(path.relative_to(history.location)) for path in history.location.rglob("*") if path.is_dir()}


def test_a_scheduled_run_takes_only_what_it_saw_twice(library: Library, tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        site.sections["orphan_cleanup"]["confirmation_margin_hours"] = 0
        history = library.copy_of("branch_with_commits", site.warehouse())
        age(history)
        planted = plant(history)
        first = site.plan(ORPHANS, trigger=Trigger.SCHEDULE)
        assert first.judged("unconfirmed") == planted
        (late,) = leave(history, "manifest/manifest-{}-0")
        second = site.plan(ORPHANS, trigger=Trigger.SCHEDULE)
        assert second.orphans() == planted
        assert second.judged("unconfirmed") == {late}
        site.apply(second)
        check_rows(history)
