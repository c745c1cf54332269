"""Branches of a real Nessie server, over a real S3 server: what is broken in them goes, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from lakewarden.formats.iceberg.branches.nessie_api import NessieApi, Reference
from lakewarden.model.errors import CatalogUnavailableError, PlanOutdatedError
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.jobs.stale_branches.branchy import AT_ONCE, JOB, at_each, going, line, make_table, rows, states
from tests.support.deployments import Seen
from tests.support.fault_proxy import FAULTS, FaultProxy, fault_proxy, method, slow_answer
from tests.support.missing import missing
from tests.support.nessie import start_nessie
from tests.support.rest import JarsMissingError
from tests.support.storage import Seaweed

pytestmark = pytest.mark.timeout(420)


@dataclass
class Server:
    """A Nessie server and its bucket."""

    uri: str
    bucket: str
    s3: Seaweed

    @property
    def properties(self) -> dict[str, str]:
        return {
            "type": "rest", "uri": self.uri, "s3.endpoint": self.s3.endpoint, "s3.region": "us-east-1",
            "s3.access-key-id": self.s3.access_key, "s3.secret-access-key": self.s3.secret_key,
        }  # fmt: skip

    def catalog(self, branch: str = "main") -> Catalog:
        return load_catalog(branch, **self.properties, prefix=quote(f"{branch}|wh", safe=""))

    @property
    def api(self) -> NessieApi:
        return NessieApi(self.catalog())

    def delete(self, address: str) -> None:
        self.s3.client().delete_object(Bucket=self.bucket, Key=address.split(f"{self.bucket}/", 1)[1])

    def branch(self, name: str) -> None:
        """A branch of the whole catalog, at main's newest commit."""
        main = self.api.reference("main")
        assert main is not None
        self.api.create(name, main.hash)

    def branches(self) -> set[str]:
        return {reference.name for reference in self.api.references()}

    def keys(self, branch: str) -> set[str]:
        return set(self.metadata(branch))

    def metadata(self, branch: str) -> dict[str, str]:
        """Where the metadata file of each table of a branch is."""
        found = self.api.reference(branch)
        assert found is not None
        tables = [entry for entry in self.api.entries(found) if entry["type"] == "ICEBERG_TABLE"]
        return {".".join(entry["name"]["elements"]): entry["content"]["metadataLocation"] for entry in tables}

    def clear(self) -> None:
        """Every branch but main, and every table."""
        for reference in self.api.references():
            if reference.name != "main":
                self.api.delete(reference)
        catalog = self.catalog()
        for space in catalog.list_namespaces():
            for table in catalog.list_tables(space):
                catalog.drop_table(table)


@pytest.fixture(scope="module")
def nessie_server(seaweed: Seaweed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    bucket = seaweed.bucket()
    try:
        uri, stop = start_nessie(tmp_path_factory.mktemp("nessie") / "log", f"s3://{bucket}/wh/", seaweed)
    except JarsMissingError as error:
        missing(error)
    yield Server(uri, bucket, seaweed)
    stop()


@pytest.fixture
def server(nessie_server: Server) -> Iterator[Server]:
    yield nessie_server
    nessie_server.clear()


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path, {"lake": server.properties}, sections={"stale_branches": dict(AT_ONCE)}) as found:
        yield found


def begins(table: Table) -> str:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return str(snapshot.manifest_list)


def ids(server: Server, table: Table) -> Any:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_only_what_is_broken_goes(server: Server, site: Site) -> None:
    """A manifest list was deleted by hand in one branch; another has diverged, and is somebody's data."""
    make_table(server.catalog(), "db.a", 1)
    make_table(server.catalog(), "db.b", 1)
    for name in ("etl/broken.1", "work", "level"):
        server.branch(name)
    lost, work = (server.catalog(name).load_table("db.a") for name in ("etl/broken.1", "work"))
    lost.append(rows(100))
    work.append(rows(200))
    server.catalog().load_table("db.a").append(rows(300))
    server.delete(begins(lost))

    plan = site.plan(JOB)
    broken, valid = plan.table("lake.`@etl/broken.1`"), plan.table("lake.@work")
    assert states(broken) == {"lake.db.a": "broken"}
    assert states(valid) == {"lake.db.a": "diverged"}
    assert (broken.changes, valid.changes) == ({"refs": 1}, {"refs": 0})
    assert not any(table.refusal for table in plan.plan.tables)

    result = site.apply(plan)
    assert (result.status, dict(result.changed), result.failed) == ("done", {"refs": 1}, ())
    assert server.keys("etl/broken.1") == {"db.b"}
    assert server.keys("work") == server.keys("level") == server.keys("main") == {"db.a", "db.b"}
    assert ids(server, server.catalog("work").load_table("db.a")) == [0, 1, 200, 201]

    back = site.warden.restore(result.run_id)
    assert (back.status, dict(back.changed)) == ("done", {"restored": 1})
    assert server.keys("etl/broken.1") == {"db.a", "db.b"}


def test_a_branch_that_would_be_empty_is_deleted_and_brought_back(server: Server, site: Site) -> None:
    make_table(server.catalog(), "db.a", 1)
    server.branch("only")
    table = server.catalog("only").load_table("db.a")
    table.append(rows(100))
    before = server.api.reference("only")
    server.delete(begins(table))
    plan = site.plan(JOB)
    assert plan.table("lake.@only").changes == {"refs": 1, "branches": 1}
    result = site.apply(plan)
    assert result.changed == {"refs": 1, "branches": 1}
    assert server.branches() == {"main"}
    assert site.warden.restore(result.run_id).status == "done"
    assert server.api.reference("only") == before


def test_a_snapshot_that_expired_outside(server: Server, site: Site) -> None:
    """Main's history went on without the branch's base: detached, which only a policy removes; and never what is new."""
    make_table(server.catalog(), "db.a", 1)
    server.branch("old")
    server.catalog("old").load_table("db.a").append(rows(100))
    # Made anew: what main has now has nothing in common with what the branch came from.
    server.catalog().drop_table("db.a")
    make_table(server.catalog(), "db.a", 2)
    make_table(server.catalog("old"), "db.only", 1)
    found = site.plan(JOB).table("lake.@old")
    assert states(found) == {"lake.db.a": "detached", "lake.db.only": "diverged"}
    assert found.changes == {"refs": 0}
    site.sections["stale_branches"]["remove"] = ["broken", "detached"]
    site.close()
    plan = site.plan(JOB)
    assert going(plan.table("lake.@old")) == {"lake.db.a"}
    assert site.apply(plan).changed == {"refs": 1}
    assert server.keys("old") == {"db.only"}


def test_a_metadata_file_that_nessie_still_serves(server: Server, site: Site) -> None:
    """Its own store has a copy: whoever reads the branch through Nessie reads it. Gone for good, it is broken."""
    make_table(server.catalog(), "db.a", 1)
    server.branch("served")
    table = server.catalog("served").load_table("db.a")
    table.append(rows(100))
    server.delete(server.metadata("served")["db.a"])
    found = site.plan(JOB).table("lake.@served")
    assert line(found, "lake.db.a")["state"] == "broken"
    assert "still serves" in line(found, "lake.db.a")["kept"]
    assert not found.changes["refs"]
    assert ids(server, server.catalog("served").load_table("db.a")) == [0, 1, 100, 101]

    server.delete(begins(table))
    assert going(site.plan(JOB).table("lake.@served")) == {"lake.db.a"}


def test_a_branch_that_moves_during_apply(server: Server, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(server.catalog(), "db.a", 1)
    server.branch("moving")
    table = server.catalog("moving").load_table("db.a")
    table.append(rows(100))
    server.delete(begins(table))
    plan = site.plan(JOB)
    assert going(plan.table("lake.@moving")) == {"lake.db.a"}

    def repair() -> None:
        """Its owner has made the table again from main, at the last moment."""
        server.catalog("moving").drop_table("db.a")
        make_table(server.catalog("moving"), "db.a", 1)

    at_each(repair, NessieApi, "delete", monkeypatch)
    result = site.apply(plan)
    assert server.keys("moving") == {"db.a"}
    assert (result.status, dict(result.changed)) == ("failed", {"refs": 0})
    assert [(f.uri, f.code) for f in result.failed] == [("lake.@moving lake.db.a", PlanOutdatedError.code)]


def test_a_bucket_that_is_away(server: Server, site: Site) -> None:
    """All files of a table are gone at once: nobody can tell that from a bucket that is away."""
    make_table(server.catalog(), "db.a", 1)
    server.branch("all")
    table = server.catalog("all").load_table("db.a")
    table.append(rows(100))
    for key in [o["Key"] for o in server.s3.client().list_objects_v2(Bucket=server.bucket).get("Contents", ())]:
        server.s3.client().delete_object(Bucket=server.bucket, Key=key)
    found = site.plan(JOB).table("lake.@all")
    assert states(found) == {"lake.db.a": "unknown"}
    assert not found.changes["refs"]


def test_a_branch_that_another_catalog_shows_and_those_that_are_named(server: Server, site: Site) -> None:
    """What somebody configured is in use, whatever its state; a selection of one branch takes no other."""
    make_table(server.catalog(), "db.a", 1)
    server.branch("level")
    for name in ("shown", "quiet", "unnamed", "safe"):
        server.branch(name)
        server.catalog(name).load_table("db.a").append(rows(100))
    site.catalogs["dev"] = {**server.properties, "prefix": "shown|wh"}
    # One that shows exactly what main shows, and whose prefix is written as an address needs it.
    site.catalogs["next"] = {**server.properties, "prefix": "level%7Cwh"}
    site.sections["stale_branches"] |= {"remove": ["inactive"], "inactive_days": 30, "protect": ["sa*"]}
    site.later(24 * 40)
    plan = site.plan(JOB, "lake.@shown", "lake.@quiet", "lake.@safe", "lake.@level")
    told = {table.identifier: line(table, "lake.db.a").get("kept") for table in plan.plan.tables}
    assert told == {
        "lake.@shown": "catalog dev shows a branch of that name",
        "lake.@level": "catalog next shows a branch of that name",
        "lake.@quiet": None,
        "lake.@safe": "protected by 'sa*'",
    }
    assert site.apply(plan).changed == {"refs": 1, "branches": 1}
    assert server.branches() == {"main", "shown", "level", "unnamed", "safe"}


class TestTwoCatalogsOfOneServer:
    """A branch is one branch by whatever catalog it is called: all of them have a say, and it goes once."""

    @pytest.fixture
    def twins(self, server: Server, site: Site) -> Site:
        make_table(server.catalog(), "db.a", 1)
        for name in ("lost", "safe"):
            server.branch(name)
            server.catalog(name).load_table("db.a").append(rows(100))
            server.delete(begins(server.catalog(name).load_table("db.a")))
        site.catalogs["twin"] = dict(server.properties)
        site.policies = {"twin.@safe": {"stale_branches": {"protect": ["*"]}}}
        return site

    def test_what_one_of_them_protects_stays_and_the_rest_goes_once(self, server: Server, twins: Site) -> None:
        plan = twins.plan(JOB)
        told = {
            table.identifier: (line(table, f"{table.identifier[:4]}.db.a")["goes"], dict(table.changes))
            for table in plan.plan.tables
            if "@" in table.identifier
        }
        assert told == {
            "lake.@lost": (True, {"refs": 1, "branches": 1}),
            "twin.@lost": (False, {"refs": 0}),
            "lake.@safe": (False, {"refs": 0}),
            "twin.@safe": (False, {"refs": 0}),
        }
        assert line(plan.table("twin.@lost"), "twin.db.a")["kept"].startswith("lake.@lost is the same branch")
        assert line(plan.table("lake.@safe"), "lake.db.a")["kept"] == "protected by '*'"
        result = twins.apply(plan)
        assert (result.status, dict(result.changed), result.failed) == ("done", {"refs": 1, "branches": 1}, ())
        assert server.branches() == {"main", "safe"}

    def test_a_selection_of_one_of_them_is_bound_by_the_other_too(self, server: Server, twins: Site) -> None:
        plan = twins.plan(JOB, "lake.@safe", "twin.@lost")
        assert {t.identifier: bool(going(t)) for t in plan.plan.tables} == {"lake.@safe": False, "twin.@lost": True}
        assert twins.apply(plan).changed == {"refs": 1, "branches": 1}
        assert server.branches() == {"main", "safe"}

    def test_a_writer_of_either_keeps_it(self, twins: Site) -> None:
        with twins.warden.heartbeat("twin.db.a"):
            found = twins.plan(JOB).table("lake.@lost")
        assert line(found, "lake.db.a")["kept"] == "a writer is at work on the table"


def test_a_clock_that_runs_ahead_makes_no_branch_old(server: Server, site: Site) -> None:
    """Nobody committed for forty days, if our clock is right; the store says that it is not."""
    make_table(server.catalog(), "db.a", 1)
    server.branch("work")
    server.catalog("work").load_table("db.a").append(rows(100))
    site.sections["stale_branches"] |= {"remove": ["inactive"], "inactive_days": 30}
    site.clock.by = timedelta(days=40)
    found = site.plan(JOB).table("lake.@work")
    assert not going(found)
    assert "the clock of s3://" in line(found, "lake.db.a")["kept"]


def test_a_catalog_that_shows_a_branch_since_the_plan(server: Server, site: Site) -> None:
    make_table(server.catalog(), "db.a", 1)
    server.branch("work")
    server.catalog("work").load_table("db.a").append(rows(100))
    site.sections["stale_branches"] |= {"remove": ["inactive"], "inactive_days": 30}
    site.later(24 * 40)
    plan = site.plan(JOB)
    assert going(plan.table("lake.@work")) == {"lake.db.a"}
    site.close()
    site.catalogs["dev"] = {**server.properties, "prefix": "work|wh"}
    result = site.apply(plan)
    assert (result.status, dict(result.changed)) == ("failed", {"refs": 0})
    assert "catalog dev shows" in result.failed[0].message
    assert server.branches() == {"main", "work"}


def test_the_catalog_shows_another_branch_since_the_plan(server: Server, site: Site) -> None:
    """What it shows by now is in use, and nobody has removed it."""
    make_table(server.catalog(), "db.a", 1)
    server.branch("next")
    table = server.catalog("next").load_table("db.a")
    table.append(rows(100))
    server.delete(begins(table))
    plan = site.plan(JOB)
    assert going(plan.table("lake.@next")) == {"lake.db.a"}
    site.close()
    site.catalogs["lake"] = {**server.properties, "prefix": "next|wh"}
    result = site.apply(plan)
    assert (result.status, dict(result.changed)) == ("failed", {"refs": 0})
    assert "shown by now" in result.failed[0].message


def test_a_server_that_serves_nothing_proves_nothing(
    server: Server, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata file is gone, and so is whatever stands between the server and us: main's table is not served either."""
    make_table(server.catalog(), "db.a", 1)
    server.branch("served")
    server.catalog("served").load_table("db.a").append(rows(100))
    server.delete(server.metadata("served")["db.a"])
    monkeypatch.setattr(NessieApi, "load", lambda *_: None)
    found = site.plan(JOB).table("lake.@served")
    assert "from main either" in line(found, "lake.db.a")["kept"]
    assert not found.changes["refs"]


def test_a_branch_that_is_deleted_while_all_are_read(
    server: Server, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Branches of a busy catalog come and go: one that went is no reason to leave all others unread."""
    make_table(server.catalog(), "db.a", 1)
    for name in ("brief", "lost"):
        server.branch(name)
        server.catalog(name).load_table("db.a").append(rows(100))
    server.delete(begins(server.catalog("lost").load_table("db.a")))

    def delete() -> None:
        found = server.api.reference("brief")
        assert found is not None
        server.api.delete(found)

    real, gone = NessieApi.entries, threading.Event()

    def entries(self: NessieApi, at: Reference) -> list[Any]:
        if at.name == "brief" and not gone.is_set():
            gone.set()
            delete()
        return real(self, at)

    monkeypatch.setattr(NessieApi, "entries", entries)
    plan = site.plan(JOB)
    assert gone.is_set()
    assert [table.identifier for table in plan.plan.tables if "@" in table.identifier] == ["lake.@lost"]
    assert going(plan.table("lake.@lost")) == {"lake.db.a"}


@pytest.fixture
def proxied(server: Server, tmp_path: Path) -> Iterator[tuple[FaultProxy, Site]]:
    """A deployment whose requests to Nessie, but not to the store, go through a proxy."""
    with fault_proxy(server.uri.removesuffix("/iceberg")) as proxy:
        properties = {**server.properties, "uri": f"{proxy.endpoint}/iceberg"}
        with Site(tmp_path, {"lake": properties}, sections={"stale_branches": dict(AT_ONCE)}) as site:
            yield proxy, site


class TestAnswers:
    """What Nessie did is found out, whatever became of its answer."""

    @pytest.fixture
    def plan(self, server: Server, proxied: tuple[FaultProxy, Site]) -> Seen:
        """A branch that is broken as a whole, and one of which one table of two is."""
        for name in ("db.a", "db.b"):
            make_table(server.catalog(), name, 1)
        for name in ("whole", "part"):
            server.branch(name)
            server.catalog(name).load_table("db.a").append(rows(100))
            server.delete(begins(server.catalog(name).load_table("db.a")))
        server.catalog("whole").drop_table("db.b")
        server.catalog("part").load_table("db.b").append(rows(100))
        plan = proxied[1].plan(JOB)
        assert {name: going(plan.table(f"lake.@{name}")) for name in ("whole", "part")} == {
            "whole": {"lake.db.a"},
            "part": {"lake.db.a"},
        }
        return plan

    @pytest.mark.parametrize("fault", ["repeated", "lost", "busy_after", "late", "truncated"])
    def test_of_a_removal_and_of_a_restore(
        self, server: Server, proxied: tuple[FaultProxy, Site], plan: Seen, fault: str
    ) -> None:
        proxy, site = proxied
        chosen = slow_answer(0.5) if fault == "late" else FAULTS[fault]
        proxy.on(method("DELETE", path="trees/whole"), chosen)
        proxy.on(method("POST", path="trees/part"), chosen)
        try:
            result = site.apply(plan)
        except CatalogUnavailableError:
            result = site.apply(plan)
        assert "whole" not in server.branches()
        assert server.keys("part") == {"db.b"}
        assert (result.status, dict(result.changed), result.failed) == ("done", {"refs": 2, "branches": 1}, ())
        proxy.clear()
        proxy.on(method("POST", path="/v2/trees"), chosen, times=2)
        back = site.warden.restore(result.run_id)
        assert server.keys("whole") == {"db.a"}
        assert server.keys("part") == {"db.a", "db.b"}
        assert (back.status, dict(back.changed), back.failed) == ("done", {"restored": 2}, ())

    @pytest.mark.parametrize("fault", ["busy_before", "foreign_before", "truncated"])
    def test_of_what_a_branch_holds(self, proxied: tuple[FaultProxy, Site], plan: Seen, fault: str) -> None:
        """A branch that cannot be read is refused by name, and the others are planned."""
        proxy, site = proxied
        proxy.on(method("GET", path="trees/part@"), FAULTS[fault], times=None)
        found = site.plan(JOB)
        assert found.refusal("lake.@part") == "LW-CATALOG-001"
        assert going(found.table("lake.@whole")) == {"lake.db.a"}

    def test_a_branch_that_somebody_brought_back_is_as_young_as_that(
        self, server: Server, proxied: tuple[FaultProxy, Site], plan: Seen
    ) -> None:
        """Nessie does not say so, and plans from before have seen it: the record of the restore does."""
        _, site = proxied
        result = site.apply(plan)
        site.later(2)
        assert site.warden.restore(result.run_id).changed == {"restored": 2}
        site.sections["stale_branches"]["min_age_hours"] = 24
        site.close()
        site.later(23)
        found = site.plan(JOB)
        assert not any(going(found.table(f"lake.@{name}")) for name in ("whole", "part"))
        assert "for 24 h" in line(found.table("lake.@whole"), "lake.db.a")["kept"]
        site.later(25)
        assert going(site.plan(JOB).table("lake.@whole")) == {"lake.db.a"}

    def test_a_branch_of_that_name_which_somebody_else_made_since_is_theirs(
        self, server: Server, proxied: tuple[FaultProxy, Site], plan: Seen
    ) -> None:
        _, site = proxied
        result = site.apply(plan)
        server.branch("whole")
        server.catalog("whole").drop_table("db.a")
        before = server.api.reference("whole")
        back = site.warden.restore(result.run_id)
        assert (back.status, dict(back.changed)) == ("partial", {"restored": 1})
        assert "made again since" in back.failed[0].message
        assert server.api.reference("whole") == before
