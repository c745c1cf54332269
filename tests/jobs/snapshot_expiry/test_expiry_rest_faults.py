"""An expiry behind a REST server whose answers are lost, late, repeated, stale, cut or another's.

Whatever happens to a commit and to the looks that follow it: a tag that its maker was told is there is there afterwards,
or the run says that it may be lost and holds every byte; and the run says `done` only of what it has seen done. One plan
and one apply for all; each table has a fault of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from lakewarden.formats.iceberg.commit import rest_versions
from lakewarden.formats.iceberg.expiry import expirer as expiry_module
from lakewarden.model.errors import CatalogUnavailableError
from lakewarden.model.run import RunResult
from tests.formats.paimon.test_expiry_crashes import Crash, crashing
from tests.jobs.snapshot_expiry.expiry_pen import BY_PART, SCHEMA, arrow
from tests.jobs.snapshot_expiry.expiry_site import EXPIRY, Rows, Site, backdate, refs_of, rows_at, snapshot_ids
from tests.support.fault_proxy import (
    FAULTS,
    Answer,
    Dropped,
    Fault,
    FaultProxy,
    Request,
    Send,
    fault_proxy,
    honest,
    late,
)
from tests.support.lakes import local_path
from tests.support.ledger import due_files
from tests.support.rest import RestJvm

pytestmark = [
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
]

LOST_REF, DOUBTFUL = "LW-APPLY-007", "LW-APPLY-009"
PATIENCE = 4.0  # seconds that the client waits for an answer


def refused_after(status: int) -> Fault:
    """The server does it; the answer says no, as when a proxy has sent the request twice."""

    def fault(request: Request, send: Send) -> Answer:
        send(request)
        body = json.dumps({"error": {"message": "not now", "type": "No", "code": status}}).encode()
        return Answer(status, (("Content-Type", "application/json"),), body)

    return fault


def refused_before(status: int) -> Fault:
    def fault(_request: Request, _send: Send) -> Answer:
        body = json.dumps({"error": {"message": "not now", "type": "No", "code": status}}).encode()
        return Answer(status, (("Content-Type", "application/json"),), body)

    return fault


def old_answer_after(request: Request, send: Send) -> Answer:
    """The server does it; the answer is the one of a moment before."""
    send(request)
    return OLD


def old_answer_before(_request: Request, _send: Send) -> Answer:
    return OLD


def foreign_answer_after(request: Request, send: Send) -> Answer:
    """The server does it; the answer is about another table."""
    send(request)
    return FOREIGN


def foreign_answer_before(_request: Request, _send: Send) -> Answer:
    return FOREIGN


# What stands for an answer that only the scene can give.
OLD, FOREIGN = Answer(0), Answer(1)
STATUSES = (400, 401, 403, 404, 409, 419, 429, 500, 502, 504)
COMMIT_FAULTS: Mapping[str, Fault] = {
    "honest": honest,
    **FAULTS,
    "late": late(PATIENCE + 2),
    **{f.__name__: f for f in (old_answer_after, old_answer_before, foreign_answer_after, foreign_answer_before)},
    **{f"refused_{status}_after": refused_after(status) for status in STATUSES},
    **{f"refused_{status}_before": refused_before(status) for status in (400, 409, 500)},
}


@dataclass
class Scene:
    """One table, and what happens to requests about it."""

    name: str
    commit: Fault
    tagged: bool = False
    looks: Fault | None = None
    """What happens to every look at the table once its commit was sent."""
    often: float = 0
    ids: list[int] = field(default_factory=list)
    first: Rows = ()
    sent: int = 0
    tag_made: bool = False
    before: Answer | None = None
    seen: int = 0

    def post(self, stage: Stage) -> Fault:
        def fault(request: Request, send: Send) -> Answer | Dropped:
            self.sent += 1
            if self.sent > 1:
                return send(request)
            if self.tagged:
                stage.table(self.name).manage_snapshots().create_tag(self.ids[0], "late").commit()
                self.tag_made = True
            answer = self.commit(request, send)
            if answer == FOREIGN:
                return send(Request("GET", request.target.replace(self.name, "other"), request.headers, b""))
            return self.before or OLD if answer == OLD else answer

        return fault

    def get(self, request: Request, send: Send) -> Answer | Dropped:
        if self.sent and self.looks is not None and self.seen < self.often:
            self.seen += 1
            return self.looks(request, lambda asked: self.before or send(asked))
        if not self.sent:
            self.before = send(request)
            return self.before
        return send(request)


@dataclass
class Stage:
    site: Site
    proxy: FaultProxy
    scenes: dict[str, Scene]
    result: RunResult | None = None

    def table(self, name: str) -> Table:
        """As the server has it, asked without the proxy."""
        return load_catalog("direct", type="rest", uri=self.proxy.upstream).load_table(f"db.{name}")

    def fill(self) -> None:
        catalog = load_catalog("direct", type="rest", uri=self.proxy.upstream)
        catalog.create_namespace("db")
        catalog.create_table("db.other", SCHEMA)
        for scene in self.scenes.values():
            table = catalog.create_table(f"db.{scene.name}", SCHEMA, partition_spec=BY_PART)
            table.append(arrow(0))
            table.append(arrow(10))
            table.overwrite(arrow(20))
            scene.ids = backdate(self.table(scene.name), int(self.site.clock.now().timestamp() * 1000))
            scene.first = rows_at(self.table(scene.name), scene.ids[0])

    def interpose(self) -> None:
        for scene in self.scenes.values():
            path = f"/tables/{scene.name}"
            self.proxy.on(_about("POST", path), scene.post(self), times=None)
            self.proxy.on(_about("GET", path), scene.get, times=None)


def _about(method: str, path: str) -> Callable[[Request], bool]:
    return lambda request: request.method == method and request.path.endswith(path)


def stale_look(request: Request, send: Send) -> Answer:
    """The answer that was right before the commit. `send` gives it here."""
    return send(request)


LOOK_FAULTS: Mapping[str, Fault] = {**FAULTS, "stale": stale_look, "gone": refused_before(404)}


def scenes() -> dict[str, Scene]:
    made = [
        *(
            Scene(f"{name}_{tag}", fault, tagged=tag == "tag")
            for name, fault in COMMIT_FAULTS.items()
            for tag in ("tag", "no")
        ),
        *(
            Scene(f"{commit}_then_{name}_{times}", COMMIT_FAULTS[commit], True, fault, times)
            for name, fault in LOOK_FAULTS.items()
            for commit, times in (("refused_409_after", 1), ("lost", 2))
        ),
        *(Scene(f"honest_then_{name}", honest, True, fault, float("inf")) for name, fault in LOOK_FAULTS.items()),
    ]
    return {scene.name: scene for scene in made}


NAMES = list(scenes())


def quick(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(expiry_module, "FIRST_WAIT", 0.001)
    patched.setattr(expiry_module, "LONGEST_WAIT", 0.01)
    patched.setattr(rest_versions, "FIRST_LOOK", 0.1)
    patched.setattr(rest_versions, "LOOK_FOR", 4.0)


@pytest.fixture(scope="module")
def opened(rest_jvm: RestJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[list[Scene]], Stage]]:
    with pytest.MonkeyPatch.context() as patched:
        stops: list[Callable[[], object]] = []

        def opened(of: list[Scene]) -> Stage:
            base = tmp_path_factory.mktemp("faults")
            database = f"jdbc:sqlite:{base}/rest.db?busy_timeout=30000"
            server = rest_jvm.serve({"warehouse": f"file://{base}/warehouse", "uri": database})
            context = fault_proxy(server.uri)
            proxy = context.__enter__()
            waits = str(int(PATIENCE * 1000))
            site = Site(
                base,
                {"lake": {"type": "rest", "uri": proxy.endpoint, "rest.client.socket-timeout-ms": waits}},
            )
            stops.extend((site.close, lambda: context.__exit__(None, None, None), server.stop))
            stage = Stage(site, proxy, {scene.name: scene for scene in of})
            stage.fill()
            return stage

        quick(patched)
        yield opened
        for stop in stops:
            stop()


@pytest.fixture(scope="module")
def stage(opened: Callable[[list[Scene]], Stage]) -> Stage:
    stage = opened(list(scenes().values()))
    plan = stage.site.plan(EXPIRY)
    assert {t.identifier for t in plan.plan.tables if t.refusal} == set()
    stage.interpose()
    try:
        stage.result = stage.site.apply(plan)
    except CatalogUnavailableError:
        # Tables whose commit was refused are left to do: by the next apply, whose answers are all true.
        for scene in stage.scenes.values():
            scene.often = 0
        stage.result = stage.site.apply(plan)
    stage.proxy.rules.clear()
    return stage


def codes(result: RunResult | None) -> dict[str, str]:
    assert result is not None
    return {failed.uri.removeprefix("lake.db."): failed.code for failed in result.failed}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_in_silence(stage: Stage, name: str) -> None:
    scene, code = stage.scenes[name], codes(stage.result).get(name)
    table = stage.table(name)
    left, refs = snapshot_ids(table), refs_of(table)
    assert scene.ids[-1] in left
    if scene.tag_made and code not in (LOST_REF, DOUBTFUL):
        assert refs["late"] == scene.ids[0]
        assert rows_at(table, scene.ids[0]) == scene.first
    if code in (LOST_REF, DOUBTFUL):
        due = stage.site.clock.now() + timedelta(days=29)
        assert f"lake.db.{name}" not in due_files(stage.site.warden._deployment.ledger, due)
    elif code is None:
        kept = {scene.ids[0], scene.ids[-1]} if "late" in refs else {scene.ids[-1]}
        assert left == kept, "it is done"
    else:
        assert set(scene.ids) <= left, "nothing was changed"


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("refused_") and "_after" in name])
def test_what_was_refused_and_done_is_found(stage: Stage, name: str) -> None:
    """The log tells, so there is nothing to hold: whoever made the tag never notices."""
    if "then" not in name:
        assert codes(stage.result).get(name) is None


def test_the_run_counts_what_it_has_seen_go(stage: Stage) -> None:
    found = codes(stage.result)
    gone = sum(
        len(set(scene.ids) - snapshot_ids(stage.table(name)))
        for name, scene in stage.scenes.items()
        if found.get(name) != DOUBTFUL
    )
    assert stage.result is not None
    assert stage.result.changed["snapshots"] == gone


@pytest.mark.parametrize("tagged", [True, False])
@pytest.mark.parametrize("trimmed", [False, True], ids=["whole log", "lost log"])
def test_killed_between_the_commit_and_its_answer(
    opened: Callable[[list[Scene]], Stage], monkeypatch: pytest.MonkeyPatch, tagged: bool, trimmed: bool
) -> None:
    scene = Scene("killed", honest, tagged)
    stage = opened([scene])
    plan = stage.site.plan(EXPIRY)
    stage.interpose()
    with monkeypatch.context() as patched:
        versions: Any = stage.site.warden._deployment.formats["lake"].expirer._versions()  # type: ignore[union-attr]
        crashing(patched, versions._catalog, "commit_table", after=True, on_call=1)
        with pytest.raises(Crash):
            stage.site.apply(plan)
    stage.site.close()
    table = stage.table("killed")
    assert "late" not in refs_of(table)
    table.append(arrow(30))
    if trimmed:
        local_path(table.refresh().metadata.metadata_log[-1].metadata_file).unlink()
    result = stage.site.apply(plan)
    if trimmed:
        assert codes(result) == {"killed": LOST_REF}
        return
    assert (result.status, codes(result)) == ("done", {})
    table = stage.table("killed")
    assert refs_of(table).get("late") == (scene.ids[0] if tagged else None)
    assert result.changed["snapshots"] == len(set(scene.ids) - snapshot_ids(table))
    if tagged:
        assert rows_at(table, scene.ids[0]) == scene.first
