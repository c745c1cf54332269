"""Partition expiry as a job, beside Java's own on a copy: the same partitions go, and where not, the reason stands here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden.formats.paimon.partitions.expirer import PaimonPartitionExpirer
from lakewarden.model.errors import DoubtError, PlanOutdatedError
from lakewarden.model.partitions import Drop
from lakewarden.model.run import RunResult
from lakewarden.model.table import Pointer
from lakewarden.model.verdict import Brake
from lakewarden.steps.plan.own_commits import OURS
from tests.formats.paimon import java, scenes
from tests.formats.paimon.histories import History, Library, age
from tests.formats.paimon.reading import Ref, all_refs, open_table, refs_of, rows_by_java, rows_by_pypaimon
from tests.formats.paimon.register import some
from tests.formats.paimon.scenes import Scene
from tests.formats.paimon.shapes import commit_of, index_entries_of, live_names
from tests.formats.paimon.site import DELETION, EXPIRY, PARTITIONS, Site, name_of
from tests.formats.paimon.test_expiry_crashes import Crash, crashing
from tests.support.deployments import Seen

CUTOFF = datetime(2024, 1, 2, 12, tzinfo=UTC)
HOURS = (datetime.now(UTC) - CUTOFF).total_seconds() / 3600

BY_VALUES = {
    # Days as text: what Java expires.
    "partitioned_appends": {"2024-01-01", "2024-01-02"},
    "partition_overwrites": {"2024-01-01", "2024-01-02"},
    "external_paths": {"2024-01-01", "2024-01-02"},
    "data_directory": {"2024-01-01", "2024-01-02"},
    "branch_with_commits": {"2024-01-01", "2024-01-02"},
    "key_upgrades": set[str](),
    "odd_partition_values": set[str](),
    "plain_appends": set[str](),
    # Typed columns, which never expire in Java: a DATE is a number there, and no formatter reads it.
    "date_partitions": {"2024-01-01"},
    "timestamp_partitions": {
        "2024-01-01 00:30:00",
        "2024-01-01 01:30:00",
        "2024-01-01 02:30:00",
        "2024-01-02 00:00:00",
    },
}
JAVA_CANNOT = ("date_partitions", "timestamp_partitions")

BY_UPDATE = (
    "key_upgrades",
    "key_dynamic_buckets",
    "key_deletion_vectors",
    "truncated_partitions",
    "odd_partition_values",
)


@dataclass(frozen=True)
class Dropped:
    """What both did; catalogs by strategy."""

    site: Site
    ours: dict[tuple[str, str], History]
    javas: dict[tuple[str, str], History]
    by_java: dict[tuple[str, str], list[dict[str, str]]]
    plans: dict[str, Seen]
    results: dict[str, RunResult]
    before: dict[tuple[str, str], set[str]]


CASES = [*(("values", name) for name in BY_VALUES), *(("update", name) for name in BY_UPDATE)]


@pytest.fixture(scope="module")
def dropped(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dropped]:
    base = tmp_path_factory.mktemp("partitions")
    with Site(base, names=("values", "update")) as site:
        site.policies = {
            "values.*": {"partition_expiry": {"expiration_hours": HOURS, "batch_size": 1}},
            "update.*": {"partition_expiry": {"expiration_hours": 1, "strategy": "update-time"}},
        }
        ours = {case: library.copy_of(case[1], site.warehouse(case[0])) for case in CASES}
        javas = {case: library.copy_of(case[1], base / "java" / case[0]) for case in CASES}
        by_java = {case: expire_by_java(*case, history) for case, history in javas.items()}
        before = {case: live_names(h.location, latest(h)) for case, h in ours.items()}
        plans = {"values": site.plan(PARTITIONS, "values.*")}
        site.later(2)
        plans["update"] = site.plan(PARTITIONS, "update.*")
        # Java empties a table without a question.
        results = {name: site.apply(plan, override_brakes=[Brake.TABLE_EMPTIED]) for name, plan in plans.items()}
        site.later(-2)
        yield Dropped(site, ours, javas, by_java, plans, results, before)


def expire_by_java(strategy: str, name: str, history: History) -> list[dict[str, str]]:
    if not open_table(history.location).partition_keys:
        return []
    options = {"partition.expiration-time": f"{round(HOURS * 3600)} s"}
    if strategy == "update":
        options = {"partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"}
    return java.expire_partitions(history.location, options)


def latest(history: History) -> Ref:
    return max((ref for ref in refs_of(history.location) if ref.branch == "main" and ref.snapshot), key=number)


def number(ref: Ref) -> int:
    assert ref.snapshot is not None
    return ref.snapshot


def dropped_values(found: Dropped, case: tuple[str, str]) -> set[str]:
    detail = found.plans[case[0]].table(name_of(found.ours[case], case[0])).detail
    return {line["label"].partition("=")[2] for line in detail["expire"]}


@pytest.mark.parametrize("name", BY_VALUES)
def test_the_same_partitions_go_by_their_values(dropped: Dropped, name: str) -> None:
    case = ("values", name)
    assert dropped_values(dropped, case) == BY_VALUES[name]
    if name in JAVA_CANNOT:
        assert dropped.by_java[case] == []
    else:
        assert {value for spec in dropped.by_java[case] for value in spec.values()} == BY_VALUES[name]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_latest_snapshot_shows_what_javas_shows(dropped: Dropped, case: tuple[str, str]) -> None:
    ours, javas = dropped.ours[case], dropped.javas[case]
    rows = rows_by_pypaimon(ours.location, latest(ours))
    assert rows == rows_by_java(ours.location, latest(ours))
    if case[1] not in JAVA_CANNOT:
        assert rows == rows_by_java(javas.location, latest(javas))
        if not ours.external:
            assert live_names(ours.location, latest(ours)) == live_names(javas.location, latest(javas))
        # Entries of an index go with their partition, wherever Java lets them go.
        entries = [index_entries_of(side.location, latest(side)) for side in (ours, javas)]
        assert [e["_FILE_NAME"] for e in entries[0]] == [e["_FILE_NAME"] for e in entries[1]]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_earlier_snapshots_still_show_their_rows_and_no_file_is_gone(dropped: Dropped, case: tuple[str, str]) -> None:
    history = dropped.ours[case]
    for read in (rows_by_pypaimon, rows_by_java):
        found = all_refs(history.location, read)
        assert {ref: found[ref] for ref in history.refs} == history.refs
    names = {path.name for root in (history.location, *history.external) for path in root.rglob("*")}
    assert dropped.before[case] <= names


def test_every_partition_goes_by_the_time_of_its_last_file(dropped: Dropped) -> None:
    for name in BY_UPDATE:
        history = dropped.ours["update", name]
        assert rows_by_pypaimon(history.location, latest(history)) == ()
    assert dropped.results["update"].status == "done"


def test_one_commit_a_batch_and_the_run_is_named_in_it(dropped: Dropped) -> None:
    history = dropped.ours["values", "partitioned_appends"]
    kinds = [commit_of(history.location, Ref(snapshot=n)) for n in (6, 7)]
    assert number(latest(history)) == 7
    run = dropped.results["values"].run_id
    assert [(one["commitKind"], one["properties"]["lakewarden.run"]) for one in kinds] == [("OVERWRITE", run)] * 2
    assert all(set(OURS) <= one["properties"].keys() for one in kinds)
    count = sum(len(values) for values in BY_VALUES.values())
    assert dropped.results["values"].changed == {"partitions": count}
    assert dropped.site.warden.audit_verify()["ok"]


def test_what_stays_has_a_reason(dropped: Dropped) -> None:
    def reasons(name: str) -> dict[str, str]:
        table = dropped.plans["values"].table(f"values.lake.{name}")
        return {line["label"]: line["reason"] for line in table.detail["keep"]}

    assert reasons("partitioned_appends").keys() == {"dt=2024-01-03", "dt=2024-01-04", "dt=2024-01-05"}
    assert all(reasons("odd_partition_values").values())
    assert len(reasons("odd_partition_values")) == 8
    assert dropped.plans["values"].table("values.lake.plain_appends").detail["inactive"]


def test_nothing_is_left_to_drop(dropped: Dropped) -> None:
    again = dropped.site.plan(PARTITIONS, "values.*")
    assert {table.changes["partitions"] for table in again.plan.tables} == {0}


def test_the_bytes_go_with_the_snapshots(dropped: Dropped) -> None:
    """Partition expiry, snapshot expiry, deletion: in the end the same data files are left as by Java."""
    site = dropped.site
    for history in [*dropped.ours.values(), *dropped.javas.values()]:
        age(history)
    site.later(2)
    site.sections["snapshot_expiry"]["age_rule"] = "own"
    site.close()
    assert site.run(EXPIRY).status == "done"
    site.later(2)
    assert site.run(DELETION).status == "done"
    site.later(-4)
    for case, history in dropped.ours.items():
        found = all_refs(history.location, rows_by_pypaimon)
        assert found == all_refs(history.location, rows_by_java)
        if history.external or case[1] in JAVA_CANNOT or case[1] == "branch_with_commits":
            continue
        javas = dropped.javas[case]
        java.expire(javas.location, retain_max=1, retain_min=1, time_retained_ms=0)
        assert data_files(history) == data_files(javas), case


def data_files(history: History) -> set[str]:
    return {path.name for path in history.location.rglob("*") if path.suffix in (".parquet", ".avro", ".orc")}


# Between plan and apply.


def written_to(scene: Scene) -> None:
    """A late row for the first day, and a new day."""
    scene.story.append([*some("2024-01-01", 5000, 1), *some("2024-05-01", 5010, 1)])


def replaced(scene: Scene) -> None:
    """The first day is written anew: as many files as before, other ones."""
    scene.story.overwrite({"dt": "2024-01-02"}, some("2024-01-02", 5000))


DEEDS = {
    "quiet": scenes.nothing,
    "written": written_to,
    "replaced": replaced,
    "rolled_back": scenes.rolls_back,
    "made_again": scenes.makes_it_again,
    "dropped": scenes.drops,
    "tagged": scenes.tags,
    "expired": scenes.expires_by_java,
}


@pytest.fixture(scope="module")
def late(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Scene], RunResult]]:
    with Site(tmp_path_factory.mktemp("late"), names=tuple(DEEDS)) as site:
        site.sections["partition_expiry"] |= {"expiration_hours": HOURS}
        found = {name: Scene.of(library.copy_of("partition_overwrites", site.warehouse(name))) for name in DEEDS}
        plan = site.plan(PARTITIONS)
        assert {table.changes["partitions"] for table in plan.plan.tables} == {2}
        for name, deed in DEEDS.items():
            deed(found[name])
        yield found, site.apply(plan)


def days(scene: Scene) -> set[str]:
    return {row[0] for row in rows_by_java(scene.location, latest(scene.history))}


def test_partitions_with_new_data_are_kept_and_named(late: tuple[dict[str, Scene], RunResult]) -> None:
    found, result = late
    failed = {entry.uri: entry for entry in result.failed}
    in_doubt = {uri for uri, entry in failed.items() if entry.code == DoubtError.code}
    assert in_doubt == {"made_again.lake.partition_overwrites", "dropped.lake.partition_overwrites"}
    assert {entry.code for uri, entry in failed.items() if uri not in in_doubt} == {PlanOutdatedError.code}
    assert "written.lake.partition_overwrites dt=2024-01-01" in failed
    assert "replaced.lake.partition_overwrites dt=2024-01-02" in failed
    assert days(found["quiet"]) == {"2024-01-03"}
    assert days(found["written"]) == {"2024-01-01", "2024-01-03", "2024-05-01"}
    assert days(found["replaced"]) == {"2024-01-02", "2024-01-03"}
    for scene in ("written", "replaced", "tagged", "expired"):
        rows = dict(all_refs(found[scene].location))
        expected = found[scene].story.states
        assert {ref: rows[ref] for ref in rows if ref in expected} == {
            ref: expected[ref] for ref in rows if ref in expected
        }


def test_another_table_in_its_place_keeps_its_partitions(late: tuple[dict[str, Scene], RunResult]) -> None:
    found, result = late
    named = {entry.uri for entry in result.failed}
    assert {"made_again.lake.partition_overwrites", "dropped.lake.partition_overwrites"} <= named
    found["made_again"].check()
    # After the rollback the same days hold other files than those that were planned.
    assert {f"rolled_back.lake.partition_overwrites dt=2024-01-0{day}" for day in (1, 2)} <= named
    found["rolled_back"].check()


def test_a_crash_after_the_commit_commits_nothing_twice(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Site(tmp_path) as site:
        site.sections["partition_expiry"] |= {"expiration_hours": HOURS, "batch_size": 1}
        history = library.copy_of("partition_overwrites", site.warehouse())
        plan = site.plan(PARTITIONS)
        with monkeypatch.context() as patched:
            # The start of the run is a step, too.
            crashing(patched, site.warden._deployment.ledger.runs, "step", after=False, on_call=2)
            with pytest.raises(Crash):
                site.apply(plan)
        assert number(latest(history)) == 7
        site.close()
        result = site.apply(plan)
        assert (result.status, result.changed) == ("done", {"partitions": 2})
        assert number(latest(history)) == 8
        assert rows_by_java(history.location, latest(history)) == tuple(
            row for row in history.refs[Ref(snapshot=6)] if row[0] > "2024-01-02"
        )
        assert site.warden.audit_verify()["ok"]


def test_a_partition_that_a_writer_reaches_between_two_batches_is_kept_and_named(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Site(tmp_path) as site:
        site.sections["partition_expiry"] |= {"expiration_hours": HOURS, "batch_size": 1}
        scene = Scene.of(library.copy_of("partition_overwrites", site.warehouse()))
        plan = site.plan(PARTITIONS)
        real, made = PaimonPartitionExpirer.drop, []

        def drop(self: PaimonPartitionExpirer, pointer: Pointer, wanted: Drop, now_ms: int) -> Any:
            made.append(real(self, pointer, wanted, now_ms))
            if len(made) == 1:
                scene.story.append(some("2024-01-02", 5000, 1))
            return made[-1]

        with monkeypatch.context() as patched:
            patched.setattr(PaimonPartitionExpirer, "drop", drop)
            crashing(patched, site.warden._deployment.ledger.runs, "finish", after=False, on_call=1)
            with pytest.raises(Crash):
                site.apply(plan)
        assert len(made) == 2
        site.close()
        result = site.apply(plan)  # both batches are done; what they kept is still told
        assert (result.status, result.changed) == ("partial", {"partitions": 1})
        named = {(entry.uri, entry.code) for entry in result.failed}
        assert named == {(f"{name_of(scene.history)} dt=2024-01-02", PlanOutdatedError.code)}
        assert days(scene) == {"2024-01-02", "2024-01-03"}
        assert rows_by_java(scene.location, latest(scene.history)).count(some("2024-01-02", 5000, 1)[0]) == 1
