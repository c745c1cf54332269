"""Tables that are damaged or not understood, through whole jobs: refused by their code or handled, and the others go on."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakewarden.model.errors import IncompleteManifestError, UnreadableMetadataError, UnsupportedTableError
from lakewarden.model.run import RunResult
from lakewarden.model.verdict import Brake
from tests.formats.paimon.histories import History, Library, age, backdate, plant
from tests.formats.paimon.reading import Ref, all_refs, refs_of, rows_by_pypaimon
from tests.formats.paimon.shapes import commit_of, manifests_of
from tests.formats.paimon.site import DELETION, EXPIRY, ORPHANS, PARTITIONS, Site, name_of
from tests.support.deployments import Seen

Damage = Callable[[History], None]
UNSUPPORTED, UNREADABLE, INCOMPLETE = (
    error.code for error in (UnsupportedTableError, UnreadableMetadataError, IncompleteManifestError)
)
LATEST = Ref(snapshot=6)


def option(key: str, value: str) -> Damage:
    def act(history: History) -> None:
        path = history.location / "schema" / "schema-0"
        document = json.loads(path.read_text())
        document["options"][key] = value
        path.write_text(json.dumps(document))

    return act


def in_snapshot(name: str, change: Callable[[bytes], bytes]) -> Damage:
    def act(history: History) -> None:
        path = history.location / "snapshot" / name
        path.write_bytes(change(path.read_bytes()))

    return act


def newer(data: bytes) -> bytes:
    return json.dumps({**json.loads(data), "version": 9}).encode()


def without_base(data: bytes) -> bytes:
    document = json.loads(data)
    del document["baseManifestList"]
    return json.dumps(document).encode()


def without_delta(data: bytes) -> bytes:
    return json.dumps({**json.loads(data), "deltaManifestList": None}).encode()


def as_another(history: History) -> None:
    """A snapshot under the number of another one."""
    shutil.copy(history.location / "snapshot" / "snapshot-4", history.location / "snapshot" / "snapshot-5")


def branch_without_schema(history: History) -> None:
    shutil.rmtree(history.location / "branch" / "branch-b1" / "schema")


def gone(key: str) -> Damage:
    def act(history: History) -> None:
        (history.location / "manifest" / commit_of(history.location, LATEST)[key]).unlink()

    return act


def manifest_gone(history: History) -> None:
    (history.location / "manifest" / manifests_of(history.location, LATEST)[0]).unlink()


def manifest_cut(history: History) -> None:
    path = history.location / "manifest" / manifests_of(history.location, LATEST)[0]
    path.write_bytes(path.read_bytes()[:-40])


def all_snapshots_gone(history: History) -> None:
    """As if a listing had come back empty; the hint remembers that there were some."""
    for path in (history.location / "snapshot").glob("snapshot-*"):
        path.unlink()


def lying_hints(history: History) -> None:
    for hint, text in (("EARLIEST", "99"), ("LATEST", "2")):
        (history.location / "snapshot" / hint).write_text(text)


def garbled_hints(history: History) -> None:
    for hint, data in (("EARLIEST", b"\xff\xfe"), ("LATEST", b"")):
        (history.location / "snapshot" / hint).write_bytes(data)


def nothing(history: History) -> None:
    """A healthy neighbour."""


REFUSED: dict[str, tuple[Damage, set[str]]] = {
    "orc_manifests": (option("manifest.format", "orc"), {UNSUPPORTED}),
    "chain_table": (option("chain-table.enabled", "true"), {UNSUPPORTED}),
    "object_table": (option("type", "object-table"), {UNSUPPORTED}),
    "newer_format": (in_snapshot("snapshot-5", newer), {UNSUPPORTED}),
    "branch_without_schema": (branch_without_schema, {UNREADABLE}),
    "cut_snapshot": (in_snapshot("snapshot-5", lambda data: data[:-30]), {UNREADABLE}),
    "empty_snapshot": (in_snapshot("snapshot-6", lambda _: b""), {UNREADABLE}),
    "snapshot_without_base": (in_snapshot("snapshot-5", without_base), {UNREADABLE}),
    "snapshot_without_delta": (in_snapshot("snapshot-6", without_delta), {UNREADABLE}),
    "another_snapshot": (as_another, {UNREADABLE}),
    "no_snapshot_left": (all_snapshots_gone, {UNREADABLE}),
    "list_gone": (gone("baseManifestList"), {UNREADABLE, INCOMPLETE}),
    "delta_gone": (gone("deltaManifestList"), {UNREADABLE, INCOMPLETE}),
    "manifest_gone": (manifest_gone, {UNREADABLE, INCOMPLETE}),
    "manifest_cut": (manifest_cut, {UNREADABLE, INCOMPLETE}),
}
HANDLED: dict[str, Damage] = {"lying_hints": lying_hints, "garbled_hints": garbled_hints, "healthy": nothing}
SCENES = (*REFUSED, *HANDLED)


@dataclass(frozen=True)
class Damaged:
    """What every job made of all of them."""

    histories: dict[str, History]
    planted: dict[str, set[Path]]
    pending: set[Path]
    before: dict[str, set[str]]
    plans: dict[str, Seen]
    results: dict[str, RunResult]


@pytest.fixture(scope="module")
def damaged(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with Site(tmp_path_factory.mktemp("damaged"), names=SCENES) as site:
        site.sections["snapshot_expiry"] = {"retain_min": 3, "retain_max": 3, "retain_hours": 0}
        site.sections["partition_expiry"] = {"expiration_hours": 24 * 30}
        histories = {
            name: library.copy_of(
                "branch_from_tag" if name == "branch_without_schema" else "partition_overwrites", site.warehouse(name)
            )
            for name in SCENES
        }
        planted = {}
        for name, history in histories.items():
            backdate(history, 12)
            age(history)
            planted[name] = plant(history)
        site.run(EXPIRY)
        pending = site.pending()
        for name, (damage, _) in REFUSED.items():
            damage(histories[name])
        for name, deed in HANDLED.items():
            deed(histories[name])
        before = {name: history.files() for name, history in histories.items()}
        site.sections["snapshot_expiry"] = {"retain_min": 1, "retain_max": 1, "retain_hours": 0}
        site.close()
        plans, results = {}, {}
        for job in (ORPHANS, DELETION, PARTITIONS, EXPIRY):
            site.later(2 if job == DELETION else 0)
            plans[job] = site.plan(job)
            results[job] = site.apply(plans[job], override_brakes=[Brake.TABLE_EMPTIED])
            site.later(-2 if job == DELETION else 0)
        yield Damaged(histories, planted, pending, before, plans, results)


JOBS = (ORPHANS, DELETION, PARTITIONS, EXPIRY)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_read_whole_is_refused(damaged: Damaged, name: str, job: str) -> None:
    table = damaged.plans[job].table(name_of(damaged.histories[name], name))
    assert table.refusal is not None
    assert table.refusal.code in REFUSED[name][1]
    assert table.refusal.hint
    assert not any(table.changes.values())


@pytest.mark.parametrize("name", REFUSED)
def test_not_one_of_its_files_is_touched(damaged: Damaged, name: str) -> None:
    assert damaged.histories[name].files() == damaged.before[name]


@pytest.mark.parametrize("name", HANDLED)
def test_the_others_go_on(damaged: Damaged, name: str) -> None:
    history = damaged.histories[name]
    assert not any(path.exists() for path in damaged.planted[name])
    assert not {path for path in damaged.pending if path.is_relative_to(history.location) and path.exists()}
    assert [ref.snapshot for ref in refs_of(history.location)] == [7]
    assert all_refs(history.location, rows_by_pypaimon) == {Ref(snapshot=7): ()}
    assert (history.location / "snapshot" / "EARLIEST").read_text() == "7"


def test_every_run_is_done(damaged: Damaged) -> None:
    assert {job: (run.status, run.failed) for job, run in damaged.results.items()} == dict.fromkeys(JOBS, ("done", ()))


def test_places_that_do_not_exist_yet(library: Library, tmp_path: Path) -> None:
    """Directories outside that no file was written to so far: nothing is there to be missed."""
    with Site(tmp_path) as site:
        history = library.copy_of("plain_appends", site.warehouse())
        option("data-file.external-paths", f"file://{tmp_path}/nobody/one,file://{tmp_path}/nobody/two")(history)
        age(history)
        planted = plant(history)
        plan = site.plan(ORPHANS)
        assert plan.refusal(name_of(history)) is None
        assert plan.orphans() == planted
        assert site.apply(plan).status == "done"
        assert site.run(EXPIRY).changed == {"snapshots": 5}


def test_a_directory_that_a_table_wrote_to_before_its_options_changed(library: Library, tmp_path: Path) -> None:
    """Another table writes there still, and must not take the first one's files for its own orphans."""
    with Site(tmp_path) as site:
        history = library.copy_of("external_paths", site.warehouse())
        first = json.loads((history.location / "schema" / "schema-0").read_text())
        options = {key: value for key, value in first["options"].items() if "external" not in key}
        (history.location / "schema" / "schema-1").write_text(json.dumps({**first, "id": 1, "options": options}))
        neighbour = library.copy_of("plain_appends", site.warehouse())
        outside = ",".join(f"file://{path}" for path in history.external)
        option("data-file.external-paths", outside)(neighbour)
        for one in (history, neighbour):
            age(one)
        left = next(path for path in history.external if path.exists()) / "bucket-0" / f"data-{uuid.uuid4()}-0.parquet"
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"x" * 64)
        os.utime(left, (0, 0))
        plan = site.plan(ORPHANS)
        assert plan.refusal(name_of(history)) is plan.refusal(name_of(neighbour)) is None
        assert plan.orphans() == {left}
        assert site.apply(plan).status == "done"
        assert all_refs(history.location, rows_by_pypaimon) == dict(history.refs)
