"""A whole night on an S3 server, for tables of three kinds of catalog at once: SQLite, PostgreSQL and REST."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from lakewarden.model.errors import Exit
from lakewarden.model.night import NightResult
from lakewarden.model.run import RunStatus
from lakewarden.pipeline.spark import session
from tests.jobs.snapshot_expiry.expiry_site import DELETION, EXPIRY, Site, rows_at
from tests.jobs.tier_handoff.aged import HANDOFF, ids_of, made
from tests.support.rest import Serve
from tests.support.storage import Seaweed

pytestmark = pytest.mark.usefixtures("spark")

CATALOGS = ("lite", "post", "rest")
NAME = "sales.orders"


@dataclass
class Night:
    """One bucket with a warehouse for each catalog, another for what is cold."""

    site: Site
    client: Any
    hot: str

    def keys(self) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.hot)
        found = {item["Key"] for page in pages for item in page.get("Contents", ())}
        return {key for key in found if not key.startswith(".lakewarden/")}

    def table(self, catalog: str, name: str = NAME) -> Table:
        return self.site.catalog(catalog).load_table(name)


@pytest.fixture
def night(seaweed: Seaweed, postgres_url: str, serve: Serve, tmp_path: Path) -> Iterator[Night]:
    client = seaweed.client()
    hot, cold = (f"{kind}{uuid.uuid4().hex[:10]}" for kind in ("hot", "cold"))
    for name in (hot, cold):
        client.create_bucket(Bucket=name)
    keys = {
        "s3.endpoint": seaweed.endpoint,
        "s3.access-key-id": seaweed.access_key,
        "s3.secret-access-key": seaweed.secret_key,
        "s3.region": "us-east-1",
    }
    server = serve(
        {
            "warehouse": f"s3://{hot}/rest",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.path-style-access": "true",
            "client.region": "us-east-1",
            **keys,
        }
    )
    catalogs = {
        "lite": {"type": "sql", "uri": f"sqlite:///{tmp_path}/lite.db", "warehouse": f"s3://{hot}/lite", **keys},
        "post": {
            "type": "sql",
            "uri": postgres_url.replace("postgresql://", "postgresql+psycopg://"),
            "warehouse": f"s3://{hot}/post",
            **keys,
        },
        "rest": {"type": "rest", "uri": server.uri, **keys},
    }
    site = Site(tmp_path, dict(catalogs))
    site.sections["snapshot_expiry"] = {"retain_hours": 0}
    site.sections["tier_handoff"] = {"destination": f"s3://{cold}/lake"}
    site.sections["physical_deletion"]["require_cold_copy"] = True
    with site:
        yield Night(site, client, hot)


def test_a_night(night: Night) -> None:
    """Expiry, handover and deletion in one plan each; what is kept reads as before, and so does what comes back."""
    site = night.site
    before: dict[str, dict[int, Any]] = {}
    for name in CATALOGS:
        site.catalog(name).create_namespace("sales")
        table = made(site.catalog(name), NAME, appends=3)
        table.manage_snapshots().create_tag(ids_of(table)[1], "kept").commit()
        table.overwrite(table.scan().to_arrow().slice(0, 2))
        before[name] = {number: rows_at(table, number) for number in ids_of(table)}
    files = night.keys()

    assert site.plan("orphans", unsafe_short_grace=list(site.uuids())).orphans() == set()
    expired = site.run(EXPIRY)

    assert expired.status is RunStatus.DONE
    assert expired.failed == ()
    lost = {name: set(before[name]) - set(ids_of(night.table(name))) for name in CATALOGS}
    assert expired.changed["snapshots"] == sum(map(len, lost.values()))
    assert all(len(several) == len(before[name]) - 2 for name, several in lost.items())
    assert files <= night.keys(), "no byte went"
    waiting = site.plan(DELETION)
    assert waiting.plan.totals()["changes"] == {"files": 0}

    handed = site.run(HANDOFF)

    assert handed.status is RunStatus.DONE
    assert handed.changed["snapshots"] == expired.changed["snapshots"]

    released = {uri.split("/", 3)[3] for page in site.warden._deployment.ledger.pending.iter_uris() for uri in page}
    result = site.delete_released()

    assert (result.status, result.absent) == (RunStatus.DONE, 0)
    assert files - night.keys() == released
    for name in CATALOGS:
        table = night.table(name)
        assert set(table.refs()) == {"main", "kept"}
        assert {number: rows_at(table, number) for number in ids_of(table)} == {
            number: rows for number, rows in before[name].items() if number not in lost[name]
        }
        table.append(table.scan().to_arrow())
        number = min(lost[name])
        site.warden.restore_cold(f"{name}.{NAME}@{number}", f"{name}.sales.back")
        assert rows_at(night.table(name, "sales.back")) == before[name][number]


class Crash(BaseException):
    """The process dies here, as far as the code can tell."""


def test_one_command_that_dies_and_is_repeated(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run all` for three kinds of catalog, with refused tables, one of which cannot be copied, and a night that dies."""
    site, client = night.site, night.client
    enabled = {"enabled": True, "dry_run": False}
    for section in ("snapshot_expiry", "tier_handoff", "physical_deletion", "orphan_cleanup"):
        site.sections[section] |= enabled
    site.sections["physical_deletion"] |= {"require_cold_copy": False, "batch_size": 2}
    failing = "rest.sales.far"
    site.policies[failing] = {"tier_handoff": {"destination": "s3://no-such-bucket-here/lake"}}
    for name in CATALOGS:
        site.catalog(name).create_namespace("sales")
        made(site.catalog(name), NAME, appends=3)
    made(site.catalog("rest"), "sales.far", appends=3)
    made(site.catalog("post"), "sales.closed", appends=3, properties={"gc.enabled": "false"})
    rows = {name: rows_at(night.table(name)) for name in CATALOGS}
    orphan = night.table("lite").location().split("/", 3)[3] + "/data/nobody-needs-it.parquet"
    client.put_object(Bucket=night.hot, Key=orphan, Body=b"0" * 64)
    applications: set[str] = set()
    real: Any = session.spark_session

    def noted(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        applications.add(found.sparkContext.applicationId)
        return found

    monkeypatch.setattr(session, "spark_session", noted)

    first = site.warden.night("all")

    assert [job.job for job in first.jobs] == [EXPIRY, HANDOFF, "physical-deletion", "orphan-cleanup"]
    assert [str(job.status) for job in first.jobs] == ["done"] * 4
    assert first.jobs[0].changed["snapshots"] == 2 * 4
    assert {table.table for table in first.jobs[0].refused} == {"post.sales.closed"}
    assert {table.table for table in first.jobs[1].refused} == {"post.sales.closed", failing}
    assert (first.exit_code(), first.exit_code(strict=True)) == (Exit.DONE, Exit.REFUSED)
    before = night.keys()
    assert orphan in before, "it is too new"

    site.later(200)
    released = {uri.split("/", 3)[3] for page in site.warden._deployment.ledger.pending.iter_uris() for uri in page}
    far = {key for key in released if "/far" in key}
    assert far
    assert far != released

    def dying(stage: str, done: int, _: int) -> None:
        if stage == "physical-deletion: delete" and done >= 2:
            raise Crash

    told: list[NightResult] = []
    with pytest.raises(Crash):
        site.warden.night("all", progress=dying, told=told.append)
    assert [str(job.status) for job in told[-1].jobs] == ["done", "done", "stopped", "skipped"]
    site.close()
    again = site.warden.night("all")

    assert [str(job.status) for job in again.jobs] == ["done"] * 4
    deletion = again.jobs[2]
    assert [result.run_id for result in deletion.resumed] == [told[-1].jobs[2].results[0].run_id]
    assert before - night.keys() == (released - far) | {orphan}
    assert {name: rows_at(night.table(name)) for name in CATALOGS} == rows
    assert len(applications) == 1
    assert site.warden.audit_verify()["ok"]
    assert not site.warden.doctor()["open_intents"]
