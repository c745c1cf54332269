"""Branches behind a REST server whose answers are lost, late, repeated, denied, cut or another's.

Whatever happens to a commit: a branch that the run counts as removed is gone, one that it does not count is there or is
named as doubtful, nothing else is touched, and `restore` brings back what went. One plan and one apply for all; each table has a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from lakewarden.formats.iceberg.commit import rest_versions
from lakewarden.model.errors import CatalogUnavailableError
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.jobs.stale_branches.branchy import AT_ONCE, JOB, branch, break_branch, going, make_table, refs
from tests.support.fault_proxy import (
    FAULTS,
    Fault,
    FaultProxy,
    Request,
    fault_proxy,
    late,
)
from tests.support.rest import Serve

PATIENCE = 2.0
COMMIT_FAULTS: dict[str, Fault] = {**FAULTS, "late": late(PATIENCE + 1)}


@pytest.fixture
def proxy(serve: Serve, tmp_path: Path) -> Iterator[FaultProxy]:
    server = serve({"warehouse": f"file://{tmp_path}/warehouse", "uri": f"jdbc:sqlite:{tmp_path}/rest.db"})
    with fault_proxy(server.uri) as found:
        yield found


@pytest.fixture
def site(proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(rest_versions, "FIRST_LOOK", 0.1)
    monkeypatch.setattr(rest_versions, "LOOK_FOR", 3.0)
    waits = str(int(PATIENCE * 1000))
    properties = {"type": "rest", "uri": proxy.endpoint, "rest.client.socket-timeout-ms": waits}
    with Site(tmp_path, {"lake": properties}, sections={"stale_branches": AT_ONCE}) as found:
        yield found


def fill(proxy: FaultProxy, *names: str) -> None:
    """Tables with a branch that is broken and one that is not, made without the proxy."""
    catalog = load_catalog("direct", type="rest", uri=proxy.upstream)
    for name in names:
        table = make_table(catalog, f"db.{name}", 1)
        branch(table, "work", 100)
        branch(table, "lost", 200)
        break_branch(table, "lost")


def left(proxy: FaultProxy, name: str) -> set[str]:
    """The refs that the server has, asked without the proxy."""
    return refs(load_catalog("direct", type="rest", uri=proxy.upstream).load_table(f"db.{name}"))


def about(proxy: FaultProxy, name: str, verb: str, fault: Fault, times: int | None = 1) -> None:
    def match(request: Request) -> bool:
        return request.method == verb and request.path.endswith(f"/tables/{name}")

    proxy.on(match, fault, times=times)


def test_what_is_counted_is_gone_whatever_was_answered(site: Site, proxy: FaultProxy) -> None:
    fill(proxy, *COMMIT_FAULTS)
    plan = site.plan(JOB)
    assert all(going(plan.table(f"db.{name}")) == {"lost"} for name in COMMIT_FAULTS)
    for name, fault in COMMIT_FAULTS.items():
        about(proxy, name, "POST", fault)
    try:
        result = site.apply(plan)
    except CatalogUnavailableError:
        result = site.apply(plan)  # as its words say: the same apply goes on
    proxy.clear()
    gone = {name for name in COMMIT_FAULTS if "lost" not in left(proxy, name)}
    assert all({"main", "work"} <= left(proxy, name) for name in COMMIT_FAULTS)
    assert (gone, result.status, dict(result.changed)) == (set(COMMIT_FAULTS), "done", {"refs": len(COMMIT_FAULTS)})
    back = site.warden.restore(result.run_id)
    assert (back.status, dict(back.changed)) == ("done", {"restored": len(gone)})
    assert all(left(proxy, name) == {"main", "work", "lost"} for name in COMMIT_FAULTS)


def test_what_comes_back_is_told_so_whatever_was_answered(site: Site, proxy: FaultProxy) -> None:
    faults = {name: COMMIT_FAULTS[name] for name in ("lost", "reset_after", "busy_after", "truncated", "repeated")}
    fill(proxy, *faults)
    removed = site.run(JOB)
    for name, fault in faults.items():
        about(proxy, name, "POST", fault)
    back = site.warden.restore(removed.run_id)
    proxy.clear()
    assert all(left(proxy, name) == {"main", "work", "lost"} for name in faults)
    assert (back.status, dict(back.changed), back.failed) == ("done", {"restored": len(faults)}, ())


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "repeated"])
def test_a_table_that_its_server_does_not_load_stops_the_plan_by_its_name(
    site: Site, proxy: FaultProxy, fault: str
) -> None:
    """Nobody knows where it lies, for this job as for every other (docs/design/0024): no plan is written, and none is half."""
    fill(proxy, "a", "b")
    about(proxy, "a", "GET", FAULTS[fault], times=None)
    with pytest.raises(
        CatalogUnavailableError, match=r"(?s)it lists db\.a but does not load it .* nothing was planned"
    ):
        site.plan(JOB)
    assert left(proxy, "a") == left(proxy, "b") == {"main", "work", "lost"}
    proxy.clear()
    plan = site.plan(JOB)
    assert all(going(plan.table(name)) == {"lost"} for name in ("db.a", "db.b"))
