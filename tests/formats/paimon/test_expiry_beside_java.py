"""Snapshot expiry and physical deletion of every history, beside Java's own expiry of a copy: the same snapshots go, the
same files are left, and where ours keeps more the reason stands here.

Several choices of limits share one plan: each is a catalog with a policy of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakewarden.model.run import RunResult
from tests.formats.paimon import java
from tests.formats.paimon.histories import NAMES, History, Library, age, backdate
from tests.formats.paimon.needs import branch_refs, content_names, needed_names
from tests.formats.paimon.reading import Ref, branches_of, refs_of
from tests.formats.paimon.shapes import DELETE, entries_of, names_of
from tests.formats.paimon.site import DELETION, EXPIRY, ORPHANS, Site, check_rows, name_of
from tests.support.deployments import Seen

HOUR = 3_600_000
GAP = 3
"""The snapshot that `snapshot_gap` has lost."""

SOME = (
    "partition_overwrites",
    "merged_manifests",
    "file_index",
    "decoupled_deltas",
    "key_upgrades",
    "key_deletion_vectors",
    "changelog_lookup",
    "several_tags",
    "tags_without_snapshots",
    "branch_with_commits",
    "fast_forwarded",
    "consumers",
    "rolled_back",
    "snapshot_gap",
    "no_hints",
)
BRANCHED = (
    "branch_from_tag",
    "branch_without_its_tag",
    "branch_with_commits",
    "fast_forwarded",
    "key_vectors_on_a_branch",
)


def no_change(history: History) -> None:
    """As it is."""


def an_hour_apart(history: History) -> None:
    """Main's snapshots lie an hour apart, the latest half an hour ago."""
    paths = sorted((history.location / "snapshot").glob("snapshot-*"), key=lambda path: int(path.name.split("-")[1]))
    for hours, path in enumerate(reversed(paths)):
        document = json.loads(path.read_text())
        document["timeMillis"] = int(time.time() * 1000) - hours * HOUR - HOUR // 2
        path.write_text(json.dumps(document))


def limits_of_its_own(history: History) -> None:
    """Limits among the options of the table."""
    limits = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4", "snapshot.expire.limit": "2"}
    for home in (history.location, *history.location.glob("branch/branch-*")):
        newest = max((home / "schema").glob("schema-*"), key=lambda path: int(path.name.split("-")[1]))
        document = json.loads(newest.read_text())
        document["options"] |= limits
        newest.write_text(json.dumps(document))


@dataclass(frozen=True)
class Choice:
    """Limits, in our words and in Java's, and the histories they are tried on."""

    names: tuple[str, ...]
    ours: Mapping[str, Any]
    java: Mapping[str, Any]
    prepare: Callable[[History], None] = no_change
    all_branches: bool = False


CHOICES = {
    # Only main, as Java's expiry has it; branches are kept by their names.
    "one": Choice(
        NAMES,
        {"retain_min": 1, "retain_max": 1, "retain_hours": 0, "age_rule": "own", "keep": ["b*"]},
        {"retain_min": 1, "retain_max": 1, "time_retained_ms": 0},
    ),
    "branches": Choice(
        BRANCHED,
        {"retain_min": 1, "retain_max": 1, "retain_hours": 0, "age_rule": "own"},
        {"retain_min": 1, "retain_max": 1, "time_retained_ms": 0},
        all_branches=True,
    ),
    "three": Choice(
        SOME,
        {"retain_min": 2, "retain_max": 3, "retain_hours": 9, "age_rule": "own", "keep": ["b*"]},
        {"retain_min": 2, "retain_max": 3, "time_retained_ms": 9 * HOUR},
    ),
    "own": Choice(SOME, {"age_rule": "own", "keep": ["b*"]}, {}, limits_of_its_own),
    "age": Choice(
        SOME,
        {"retain_min": 1, "retain_max": 90, "retain_hours": 2, "age_rule": "own", "keep": ["b*"]},
        {"retain_min": 1, "retain_max": 90, "time_retained_ms": 2 * HOUR},
        an_hour_apart,
    ),
    # Java 1.4 goes by a snapshot's own age, so it has to wait an hour longer to let the same ones go.
    "successor": Choice(
        SOME,
        {"retain_min": 1, "retain_max": 90, "retain_hours": 2, "age_rule": "successor", "keep": ["b*"]},
        {"retain_min": 1, "retain_max": 90, "time_retained_ms": 3 * HOUR},
        an_hour_apart,
    ),
}
CASES = [(choice, name) for choice, found in CHOICES.items() for name in found.names]

A_BRANCH = "Java protects no branch (apache/paimon#6272): the difference is what the branch's refs need"
A_GAP = "what lies before a gap is left alone, and what only the missing snapshot showed is orphan cleanup's"
NO_JAVA = "Java 1.4 does not open it"

WHY_OURS_KEEPS_MORE = {
    **{("one", name): A_BRANCH for name in ("branch_without_its_tag", "fast_forwarded", "key_vectors_on_a_branch")},
    **{("branches", name): A_BRANCH for name in BRANCHED},
    ("one", "append_deletion_vectors"): NO_JAVA,
    **{(choice, "snapshot_gap"): A_GAP for choice in ("one", "three", "own", "age", "successor")},
}


@dataclass(frozen=True)
class Expired:
    """What both did."""

    site: Site
    ours: dict[tuple[str, str], History]
    javas: dict[tuple[str, str], History]
    counts: dict[tuple[str, str], int]
    plan: Seen
    result: RunResult
    lost: set[str]
    """Data files that only the missing snapshot of `snapshot_gap` showed."""


@pytest.fixture(scope="module")
def expired(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Expired]:
    """Expiry by Java; by ours, then orphan cleanup, which must mind what is pending, then deletion."""
    base = tmp_path_factory.mktemp("expiry")
    with Site(base, names=tuple(CHOICES)) as site:
        site.sections["snapshot_expiry"] = {}
        site.policies = {f"{name}.*": {"snapshot_expiry": choice.ours} for name, choice in CHOICES.items()}
        ours = {(choice, name): library.copy_of(name, site.warehouse(choice)) for choice, name in CASES}
        javas = {(choice, name): library.copy_of(name, base / "java" / choice) for choice, name in CASES}
        for (choice, _), history in [*ours.items(), *javas.items()]:
            backdate(history, 12)
            CHOICES[choice].prepare(history)
            age(history)
        counts = {case: by_java(CHOICES[case[0]], history) for case, history in javas.items() if history.opens_in_java}
        lost = shown_by_none(library.original("snapshot_gap"))
        plan = site.plan(EXPIRY)
        yield Expired(site, ours, javas, counts, plan, site.apply(plan), lost)


@pytest.fixture(scope="module")
def between(expired: Expired) -> tuple[Seen, set[Path]]:
    """Orphan cleanup after expiry and before deletion, and what waits for that."""
    return expired.site.plan(ORPHANS), expired.site.pending()


@pytest.fixture(scope="module")
def deleted(expired: Expired, between: tuple[Seen, set[Path]]) -> RunResult:
    """Deletion, when the released files have waited long enough."""
    expired.site.later(2)
    result = expired.site.run(DELETION)
    expired.site.later(-2)
    return result


@pytest.fixture(scope="module")
def cleaned(expired: Expired, deleted: RunResult) -> RunResult:
    """The last job of the day."""
    return expired.site.run(ORPHANS)


def shown_by_none(history: History) -> set[str]:
    """Files that the commit after the gap deleted and no snapshot shows: the missing one added them."""
    deleted = names_of(entries_of(history.location, Ref(snapshot=GAP + 1)), DELETE)
    return set(deleted) - needed_names(history.location)


def by_java(choice: Choice, history: History) -> int:
    branches = branches_of(history.location) if choice.all_branches else ["main"]
    return sum(java.expire(history.location, branch=branch, **choice.java) for branch in branches)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_as_many_snapshots_go_as_by_java(expired: Expired, case: tuple[str, str]) -> None:
    history = expired.ours[case]
    planned = expired.plan.table(name_of(history, case[0]))
    assert planned.refusal is None
    count = planned.changes["snapshots"]
    kept = refs_of(history.location)
    assert len(history.refs) - len(kept) == count
    if case in expired.counts and WHY_OURS_KEEPS_MORE.get(case) != A_GAP:
        assert count == expired.counts[case]
        assert kept == refs_of(expired.javas[case].location)
    for branch in branches_of(history.location):
        assert Ref(branch, snapshot=newest(history, branch)) in kept or not history.refs


def newest(history: History, branch: str) -> int:
    return max((ref.snapshot for ref in history.refs if ref.branch == branch and ref.snapshot), default=0)


def test_the_run_says_what_it_did(expired: Expired) -> None:
    count = sum(table.changes["snapshots"] for table in expired.plan.plan.tables)
    assert (expired.result.status, expired.result.changed, expired.result.failed) == ("done", {"snapshots": count}, ())
    assert count > 150


def test_expiry_itself_touches_no_content(expired: Expired, between: tuple[Seen, set[Path]]) -> None:
    """Until deletion, every file that expiry released is still there; orphan cleanup knows them and leaves them."""
    plan, pending = between
    assert len(pending) > 300
    assert all(path.exists() for path in pending)
    assert not plan.orphans() & pending
    # What a manifest still names, deleted or not, counts as live there.
    assert {plan.verdict(path) for path in pending} == {"pending", "live"}
    leftovers = {history.location / path for history in expired.ours.values() for path in history.leftovers}
    assert plan.orphans() == leftovers - pending


@pytest.mark.usefixtures("deleted")
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_same_files_are_left_as_by_java(expired: Expired, case: tuple[str, str]) -> None:
    ours, javas = expired.ours[case], expired.javas[case]
    more = content_names(ours.location) - content_names(javas.location)
    less = content_names(javas.location) - content_names(ours.location)
    why = WHY_OURS_KEEPS_MORE.get(case)
    if ours.external:
        # Built twice, so the names differ.
        assert sorted(kinds(ours)) == sorted(kinds(javas))
        return
    if why == NO_JAVA:
        assert content_names(ours.location) == needed_names(ours.location)
        return
    if why == A_GAP:
        # Java may stop at the gap for ever (apache/paimon#4743), and then keeps what lies behind it.
        assert less <= needed_names(javas.location) - needed_names(ours.location)
        before = [ref for ref in refs_of(ours.location) if ref.snapshot is not None and ref.snapshot < GAP]
        assert more <= needed_names(ours.location, before) | expired.lost
        return
    assert not less
    if why == A_BRANCH:
        assert more <= needed_names(ours.location, branch_refs(ours.location))
    else:
        assert not more, f"ours keeps more of {case} than Java, and nobody said why"
        assert ours.files() - hints() == javas.files() - hints()


def hints() -> set[str]:
    return {f"{kind}/{hint}" for kind in ("snapshot", "changelog") for hint in ("EARLIEST", "LATEST")}


def kinds(history: History) -> list[str]:
    return ["/".join(Path(path).parts[-3:-1]) for path in history.files()]


@pytest.mark.usefixtures("deleted")
@pytest.mark.parametrize("case", [case for case in CASES if not case[1].startswith("decoupled")], ids="-".join)
def test_nothing_is_left_but_what_a_ref_needs(expired: Expired, case: tuple[str, str]) -> None:
    """By the tests' own reading of the metadata; what somebody left before is orphan cleanup's."""
    history = expired.ours[case]
    if history.external:
        return
    leftovers = {Path(path).name for path in history.leftovers} | expired.lost
    left = content_names(history.location)
    assert left >= needed_names(history.location), "needed files are gone"
    assert left - leftovers == needed_names(history.location) - leftovers


def test_deletion_takes_what_was_released_and_strikes_it_out(expired: Expired, deleted: RunResult) -> None:
    assert (deleted.status, deleted.failed, deleted.absent) == ("done", (), 0)
    assert not expired.site.pending()


@pytest.mark.usefixtures("cleaned")
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_after_the_day_every_ref_reads_back(expired: Expired, case: tuple[str, str]) -> None:
    """Files only went, so what is readable now was readable after each of the three jobs."""
    check_rows(expired.ours[case])


@pytest.mark.usefixtures("cleaned")
@pytest.mark.parametrize("name", ["one", "branches"])
def test_after_the_day_java_finds_no_orphan(expired: Expired, name: str) -> None:
    for choice, history in CASES:
        if choice == name and expired.ours[choice, history].opens_in_java:
            found = java.orphans(expired.ours[choice, history].location).paths
            assert found == (), f"{history}: {found}"


@pytest.mark.usefixtures("cleaned")
def test_the_journal_is_whole(expired: Expired) -> None:
    found = expired.site.warden.audit_verify()
    assert found == {"ok": True, "runs": 3, "problems": []}


@pytest.mark.usefixtures("cleaned")
def test_nothing_is_left_to_do(expired: Expired) -> None:
    again = expired.site.plan(EXPIRY, "one.*", "branches.*")
    assert {table.changes["snapshots"] for table in again.plan.tables} == {0}


def test_hints_point_at_what_is_there(expired: Expired) -> None:
    for case, history in expired.ours.items():
        for home in (history.location, *history.location.glob("branch/branch-*")):
            hint = home / "snapshot" / "EARLIEST"
            if hint.exists():
                assert (home / "snapshot" / f"snapshot-{hint.read_text()}").exists(), case


def test_decoupled_changelogs_are_still_told(expired: Expired, deleted: RunResult) -> None:
    """Java reads the changes of snapshots that are gone from the changelogs that outlived them."""
    changes = expired.ours["one", "decoupled_changelog"]
    assert (changes.location / "changelog" / "changelog-6").exists()
    assert java.changes(changes.location, 3) == [("-U", "a", 1, "v1"), ("+U", "a", 1, "new")]
    assert java.changes(changes.location, 6) == java.changes(expired.javas["one", "decoupled_changelog"].location, 6)
    deltas, javas = (side["one", "decoupled_deltas"].location for side in (expired.ours, expired.javas))
    for number in range(1, 5):
        assert java.changes(deltas, number) == java.changes(javas, number)
