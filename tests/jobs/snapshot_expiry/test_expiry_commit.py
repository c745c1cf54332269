"""What others do between plan and apply, and inside the commit itself, survives: on SQLite, PostgreSQL and a REST catalog.

One plan and one apply for each kind of catalog; each table has its own event, and no event stops another table.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.table.update import UpgradeFormatVersionUpdate
from sqlalchemy import create_engine, text

from lakewarden.formats.iceberg.commit import rest_versions
from lakewarden.formats.iceberg.expiry import expirer as expiry_module
from lakewarden.model.errors import NothingAppliedError
from lakewarden.model.run import RunResult
from tests.formats.iceberg.catalogs.conftest import RestWorld, rest_world  # noqa: F401
from tests.formats.iceberg.catalogs.fronts import front
from tests.formats.iceberg.catalogs.test_nessie import like_nessie
from tests.jobs.snapshot_expiry.expiry_pen import BY_PART, SCHEMA, arrow
from tests.jobs.snapshot_expiry.expiry_site import (
    EXPIRY,
    HOUR_MS,
    Rows,
    Site,
    backdate,
    document_of,
    edit,
    refs_of,
    rows_at,
    rows_of_all,
    snapshot_ids,
    sqlite_properties,
)
from tests.support.deployments import Seen
from tests.support.ledger import due_files

pytestmark = [
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
]

OUTDATED, UNREADABLE, DOUBT = "LW-PLAN-005", "LW-TABLE-001", "LW-DOUBT-001"
NESSIE, LOST_REF, DOUBTFUL = "LW-TABLE-007", "LW-APPLY-007", "LW-APPLY-009"
SQL, ALL = ("sqlite", "postgresql"), ("sqlite", "postgresql", "rest")
_numbers = itertools.count()


@dataclass
class Scene:
    """One table while its snapshots expire."""

    site: Site
    name: str
    kind: str
    ids: list[int] = field(default_factory=list)
    rows: dict[int, Rows] = field(default_factory=dict)
    calls: int = 0

    @property
    def catalog(self) -> Catalog:
        return self.site.catalog()

    def table(self) -> Table:
        return self.catalog.load_table(f"db.{self.name}")

    def tag(self, name: str = "late", place: int = 0) -> None:
        self.table().manage_snapshots().create_tag(self.ids[place], name).commit()

    def branch(self, name: str = "late", place: int = 1) -> None:
        """A branch on an old snapshot, with a commit of its own."""
        self.table().manage_snapshots().create_branch(self.ids[place], name).commit()
        if self.table().format_version < 3:
            self.table().append(arrow(700), branch=name)

    def left(self) -> set[int]:
        return snapshot_ids(self.table())

    def check_rows(self) -> None:
        """Every snapshot of before that is left shows what it did."""
        table = self.table()
        for number in self.left() & self.rows.keys():
            assert rows_at(table, number) == self.rows[number], number


Step = Callable[[Scene], None]
Act = Callable[[Scene, Callable[[], Any]], Any]


@dataclass(frozen=True)
class Event:
    """What happens to a table: before the plan, after it, in place of the commit, and how it must end."""

    check: Step
    before: Step | None = None
    between: Step | None = None
    inside: Act | None = None
    fails: str | None = None
    kinds: tuple[str, ...] = ALL


def first_only(act: Step) -> Act:
    """Act just before the first commit."""

    def inside(scene: Scene, commit: Callable[[], Any]) -> Any:
        if scene.calls == 1:
            act(scene)
        return commit()

    return inside


def only_newest(scene: Scene) -> None:
    assert scene.left() == {scene.ids[-1]}


def first_is_tagged(scene: Scene) -> None:
    """Snapshot, tag and rows are there, to be read by the tag's name."""
    assert scene.left() == {scene.ids[0], scene.ids[-1]}
    assert refs_of(scene.table()) == {"main": scene.ids[-1], "late": scene.ids[0]}
    reached = scene.table().scan().use_ref("late").to_arrow()
    assert tuple(sorted((tuple(row.values()) for row in reached.to_pylist()), key=repr)) == scene.rows[scene.ids[0]]


def second_is_branched(scene: Scene) -> None:
    """The branch's head, and what it stood on where nothing was committed to it."""
    head = refs_of(scene.table())["late"]
    assert head in scene.left()
    expected = scene.rows[scene.ids[1]] + (
        tuple((n, "ab"[n % 2]) for n in range(700, 704)) if head != scene.ids[1] else ()
    )
    assert sorted(rows_at(scene.table(), head), key=repr) == sorted(expected, key=repr)


def roll_back(scene: Scene) -> None:
    scene.table().manage_snapshots().rollback_to_snapshot(scene.ids[0]).commit()


def first_is_current(scene: Scene) -> None:
    assert refs_of(scene.table()) == {"main": scene.ids[0]}
    assert scene.left() == {scene.ids[0], scene.ids[-1]}  # the newest is young, and nobody's


def stale_tags(scene: Scene) -> None:
    """Two tags that are too old."""
    for place, name in ((1, "moved"), (2, "old")):
        scene.table().manage_snapshots().create_tag(scene.ids[place], name, max_ref_age_ms=HOUR_MS).commit()


def move_tag(scene: Scene) -> None:
    scene.table().manage_snapshots().remove_tag("moved").commit()
    scene.table().manage_snapshots().create_tag(scene.ids[0], "moved", max_ref_age_ms=HOUR_MS).commit()


def tag_stays_where_it_was_moved(scene: Scene) -> None:
    assert refs_of(scene.table()) == {"main": scene.ids[-1], "moved": scene.ids[0]}
    assert scene.left() == {scene.ids[0], scene.ids[-1]}


def prolong_tag(scene: Scene) -> None:
    """Its owner needs it longer; it stays where it is."""
    scene.table().manage_snapshots().remove_tag("moved").commit()
    scene.table().manage_snapshots().create_tag(scene.ids[1], "moved").commit()


def tag_is_prolonged(scene: Scene) -> None:
    assert refs_of(scene.table()) == {"main": scene.ids[-1], "moved": scene.ids[1]}
    assert "max-ref-age-ms" not in document_of(scene.table())["refs"]["moved"]


def recreate(scene: Scene) -> None:
    scene.catalog.drop_table(f"db.{scene.name}")
    fill(scene)


def all_are_left(scene: Scene) -> None:
    assert len(scene.left()) == len(scene.ids)


def is_gone(scene: Scene) -> None:
    assert not scene.catalog.table_exists(f"db.{scene.name}")


def always_busy(scene: Scene, commit: Callable[[], Any]) -> Any:
    """Somebody commits just before us, each time."""
    scene.table().append(arrow(800 + scene.calls, 1))
    return commit()


def nothing_expired(scene: Scene) -> None:
    assert set(scene.ids) <= scene.left()
    assert scene.calls == expiry_module.TRIES


def lost_answer(scene: Scene, commit: Callable[[], Any]) -> Any:
    """It was done, and nobody said so."""
    commit()
    raise CommitStateUnknownException("the answer was lost")


def lost_answer_and_tag(scene: Scene, commit: Callable[[], Any]) -> Any:
    if scene.calls > 1:
        return commit()
    scene.tag()
    return lost_answer(scene, commit)


def made_later(scene: Scene, commit: Callable[[], Any]) -> Any:
    """Nobody answers, a tag is made meanwhile, and then the server takes the commit after all."""
    if scene.calls > 1:
        return commit()
    scene.tag()
    threading.Timer(0.5, commit).start()
    raise TimeoutError("no answer")


def failed_once(scene: Scene, commit: Callable[[], Any]) -> Any:
    """The first try does not reach the catalog's table."""
    if scene.calls == 1:
        raise CommitFailedException("not now")
    return commit()


def lost_for_good(scene: Scene, commit: Callable[[], Any]) -> Any:
    """A tag goes with our commit, and from then on the catalog takes none of ours."""
    if scene.calls > 1:
        raise CommitStateUnknownException("500")
    scene.tag()
    return commit()


def unreachable(scene: Scene, commit: Callable[[], Any]) -> Any:
    raise CommitStateUnknownException("500")


def unknown_fields(scene: Scene) -> None:
    """As a newer engine writes them."""
    document = document_of(scene.table())
    document["later"] = {"of": ["a newer", 1]}
    for snapshot in document["snapshots"]:
        snapshot["more"] = {"than": "we know"}
    edit(scene.table(), document)


def unknown_fields_are_left(scene: Scene) -> None:
    only_newest(scene)
    document = document_of(scene.table())
    assert document["later"] == {"of": ["a newer", 1]}
    assert [snapshot["more"] for snapshot in document["snapshots"]] == [{"than": "we know"}]


def named_but_tagged(scene: Scene) -> None:
    """The policy names two; one of them was tagged after the plan."""
    assert scene.left() == set(scene.ids) - {scene.ids[3]}


def garble(scene: Scene) -> None:
    document = document_of(scene.table())
    del document["refs"]["main"]["snapshot-id"]
    edit(scene.table(), document)


def raise_version(scene: Scene) -> None:
    table = scene.table()
    table.catalog.commit_table(table, (), (UpgradeFormatVersionUpdate(format_version=3),))


EVENTS = {
    "quiet": Event(only_newest),
    "tagged": Event(first_is_tagged, between=Scene.tag),
    "branched": Event(second_is_branched, between=Scene.branch),
    "rolled_back": Event(first_is_current, between=roll_back),
    "moved": Event(tag_stays_where_it_was_moved, before=stale_tags, between=move_tag),
    "named_ids": Event(named_but_tagged, between=Scene.tag),
    "recreated": Event(all_are_left, between=recreate, fails=DOUBT),
    "dropped": Event(is_gone, between=lambda s: s.catalog.drop_table(f"db.{s.name}"), fails=DOUBT),
    "tagged_inside": Event(first_is_tagged, inside=first_only(Scene.tag)),
    "branched_inside": Event(second_is_branched, inside=first_only(Scene.branch)),
    "rolled_back_inside": Event(first_is_current, inside=first_only(roll_back)),
    "prolonged_inside": Event(tag_is_prolonged, before=stale_tags, inside=first_only(prolong_tag)),
    "tagged_inside_v3": Event(first_is_tagged, before=raise_version, inside=first_only(Scene.tag), kinds=("rest",)),
    "branched_inside_v3": Event(
        second_is_branched, before=raise_version, inside=first_only(Scene.branch), kinds=("rest",)
    ),
    "busy": Event(nothing_expired, inside=always_busy, fails=OUTDATED),
    "lost_answer": Event(only_newest, inside=lost_answer),
    "lost_answer_and_tag": Event(first_is_tagged, inside=lost_answer_and_tag),
    "failed_once": Event(only_newest, inside=failed_once),
    "unreachable": Event(all_are_left, inside=unreachable, fails=DOUBTFUL, kinds=("rest",)),
    "made_later": Event(first_is_tagged, inside=made_later, kinds=("rest",)),
    "lost_for_good": Event(only_newest, inside=lost_for_good, fails=LOST_REF, kinds=("rest",)),
    "garbled": Event(lambda _: None, between=garble, fails=UNREADABLE, kinds=SQL),
    "unknown_fields": Event(unknown_fields_are_left, before=unknown_fields, kinds=SQL),
}


@dataclass(frozen=True)
class Done:
    scenes: Mapping[str, Scene]
    plan: Seen
    result: RunResult
    pending: set[Path]


@pytest.fixture(scope="module", params=[
    "sqlite", "postgresql", "rest",
])  # fmt: skip
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """Everything at once, on one kind of catalog."""
    kind = str(request.param)
    base = tmp_path_factory.mktemp(f"commit-{kind}")
    properties, stop = catalog_of(kind, base, request)
    with Site(base, {"lake": properties}) as site:
        site.catalog().create_namespace("db")
        found = {name: Scene(site, name, kind) for name, event in EVENTS.items() if kind in event.kinds}
        for name, scene in found.items():
            fill(scene)
            if (before := EVENTS[name].before) is not None:
                before(scene)
            scene.ids = backdate(scene.table(), _now(site))
            scene.rows = rows_of_all(scene.table())
        named = [found["named_ids"].ids[place] for place in (0, 3)]
        site.policies["lake.db.named_ids"] = {"snapshot_expiry": {"retain_hours": 99, "expire_ids": named}}
        plan = site.plan(EXPIRY)
        for name, scene in found.items():
            if (between := EVENTS[name].between) is not None:
                between(scene)
        interpose(site, kind, found)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(expiry_module, "FIRST_WAIT", 0.001)
            patched.setattr(expiry_module, "LONGEST_WAIT", 0.01)
            patched.setattr(rest_versions, "LOOK_FOR", 3.0)
            result = site.apply(plan)
        yield Done(found, plan, result, site.pending())
    stop()


def catalog_of(kind: str, base: Path, request: pytest.FixtureRequest) -> tuple[dict[str, str], Callable[[], None]]:
    """PyIceberg's properties of an empty catalog, and how to end it."""
    if kind == "sqlite":
        return sqlite_properties(base), lambda: None
    if kind == "rest":
        # A file, for eight clients at once: the shared memory of the other tests has no patience.
        database = f"jdbc:sqlite:{base}/rest.db?busy_timeout=30000"
        server = request.getfixturevalue("rest_jvm").serve({"warehouse": f"file://{base}/warehouse", "uri": database})
        return {"type": "rest", "uri": server.uri}, server.stop
    server = request.getfixturevalue("postgres_server").replace("postgresql:", "postgresql+psycopg:")
    name = f"lake_{os.getpid()}_{next(_numbers)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return sqlite_properties(base) | {"uri": server.removesuffix("/postgres") + f"/{name}"}, lambda: None


def fill(scene: Scene) -> None:
    """A table of five snapshots, each with other rows."""
    table = scene.catalog.create_table(f"db.{scene.name}", SCHEMA, partition_spec=BY_PART)
    table.append(arrow(0))
    table.overwrite(arrow(10))
    table.overwrite(arrow(20))
    scene.ids = [s.snapshot_id for s in scene.table().snapshots()]


def interpose(site: Site, kind: str, scenes: Mapping[str, Scene]) -> None:
    """Let each scene's event happen at the moment of its commit, by another client."""
    versions: Any = site.warden._deployment.formats["lake"].expirer._versions()  # type: ignore[union-attr]
    owner, name = (versions._catalog, "commit_table") if kind == "rest" else (versions, "_swap")
    real = getattr(owner, name)

    def commit(first: Any, *more: Any) -> Any:
        table = first if isinstance(first, str) else ".".join(first.name())
        scene = scenes[table.removeprefix("db.")]
        scene.calls += 1
        act = EVENTS[scene.name].inside
        return act(scene, lambda: real(first, *more)) if act else real(first, *more)

    setattr(owner, name, commit)


def _now(site: Site) -> int:
    return int(site.clock.now().timestamp() * 1000)


def test_all_were_planned(done: Done) -> None:
    assert {t.identifier: t.refusal for t in done.plan.plan.tables if t.refusal} == {}
    changes = {t.identifier.rsplit(".", 1)[1]: t.changes["snapshots"] for t in done.plan.plan.tables}
    assert changes == {name: 2 if name == "named_ids" else 4 for name in done.scenes}


@pytest.mark.parametrize("name", EVENTS)
def test_it_ends_as_it_must(done: Done, name: str) -> None:
    if name not in done.scenes:
        pytest.skip("not on this kind of catalog")
    scene = done.scenes[name]
    EVENTS[name].check(scene)
    if EVENTS[name].fails is None:
        scene.check_rows()
        assert len(scene.table().scan().to_arrow()) > 0


def test_one_tables_trouble_is_its_own(done: Done) -> None:
    assert done.result.status == "partial"
    assert {failed.uri.rsplit(".", 1)[1]: failed.code for failed in done.result.failed} == {
        name: event.fails for name, event in EVENTS.items() if event.fails and name in done.scenes
    }


def test_the_run_counts_what_went(done: Done) -> None:
    gone = 0
    for name, scene in done.scenes.items():
        if EVENTS[name].fails in (None, LOST_REF):
            gone += len(set(scene.ids) - scene.left())
    assert done.result.changed["snapshots"] == gone


def test_what_was_released_is_not_needed(done: Done) -> None:
    """A table that failed before it was touched has nothing released."""
    for name in ("recreated", "dropped"):
        assert not [path for path in done.pending if f"/db/{name}/" in str(path)]
    assert [path for path in done.pending if "/db/quiet/" in str(path)]


def test_files_of_a_ref_that_may_be_lost_stay_known_and_wait(done: Done) -> None:
    """Unknown to the ledger they would be orphans; due as soon as others, they would go before anybody noticed."""
    site = done.scenes["quiet"].site
    soon, late = (site.clock.now() + timedelta(days=days) for days in (29, 31))
    waiting = partial(due_files, site.warden._deployment.ledger)
    assert waiting(soon)["lake.db.quiet"] > 0
    for name in {"lost_for_good", "unreachable"} & done.scenes.keys():
        assert waiting(soon)[f"lake.db.{name}"] == 0, name
        assert waiting(late)[f"lake.db.{name}"] > 0, name


def test_tables_that_nessie_serves_are_refused(rest_world: RestWorld) -> None:  # noqa: F811
    """It refuses to remove snapshots, and its other branches may need any of them."""
    before = rest_world.on_disk()
    with front(rest_world.lake.properties["uri"], like_nessie) as uri:
        site = Site(rest_world.base, {"lake": {**rest_world.lake.properties, "uri": uri}})
        with site:
            plan = site.plan(EXPIRY)
            assert {table.refusal.code for table in plan.plan.tables if table.refusal} == {NESSIE}
            assert plan.plan.totals()["changes"].get("snapshots", 0) == 0
            with pytest.raises(NothingAppliedError):
                site.apply(plan)
    assert rest_world.on_disk() == before
