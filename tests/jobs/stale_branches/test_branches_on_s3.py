"""Branches whose files lie on a real S3 server: no answer but "it is not there" makes one of them broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.jobs.stale_branches.branchy import AT_ONCE, JOB, branch, going, list_of, make_table, refs, states
from tests.support.buckets import Bucket
from tests.support.fault_proxy import FAULTS, Answer, Fault, FaultProxy, Request, Send, fault_proxy


def away(_request: Request, _send: Send) -> Answer:
    """404, as whatever has taken the server's place says it of everything."""
    return Answer(404, (("Content-Type", "text/html"),), b"<html>404</html>")


def no_bucket(_request: Request, _send: Send) -> Answer:
    body = b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code><Message>no</Message></Error>"
    return Answer(404, (("Content-Type", "application/xml"),), body)


def failed(_request: Request, _send: Send) -> Answer:
    return Answer(500, (), json.dumps({"error": "no"}).encode())


STORE_FAULTS: dict[str, Fault] = {**FAULTS, "away": away, "no_bucket": no_bucket, "failed": failed}


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultProxy]:
    with fault_proxy(bucket.server.endpoint) as found:
        yield found


def properties(bucket: Bucket, base: Path, endpoint: str) -> dict[str, str]:
    return {
        "type": "sql", "uri": f"sqlite:///{base}/catalog.db", "warehouse": f"s3://{bucket.name}/wh",
        "s3.endpoint": endpoint, "s3.access-key-id": bucket.server.access_key,
        "s3.secret-access-key": bucket.server.secret_key, "s3.region": "us-east-1",
    }  # fmt: skip


@pytest.fixture
def site(bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> Iterator[Site]:
    catalog = load_catalog("lake", **properties(bucket, tmp_path, bucket.server.endpoint))
    table = make_table(catalog, "db.t", 2)
    branch(table, "work", 100)
    branch(table, "lost", 200)
    with Site(
        tmp_path, {"lake": properties(bucket, tmp_path, proxy.endpoint)}, sections={"stale_branches": AT_ONCE}
    ) as found:
        yield found


def test_only_what_is_not_there_by_its_name_is_broken(site: Site, bucket: Bucket, proxy: FaultProxy) -> None:
    """Each fault on its own: on asking for the list of a healthy branch, and on listing its directory."""
    table = site.catalog().load_table("db.t")
    lists = {name: list_of(table, name).rpartition("/")[2] for name in ("work", "lost")}

    def asks_for_work(request: Request) -> bool:
        return request.path.endswith(lists["work"])

    def lists_all(request: Request) -> bool:
        return "list-type" in request.query and "metadata" in request.query.get("prefix", [""])[0]

    for name, fault in STORE_FAULTS.items():
        proxy.clear()
        proxy.on(asks_for_work, fault, times=None)
        found = site.plan(JOB).table("db.t")
        assert states(found).get("work") != "broken", name
        assert not going(found), name
    proxy.clear()
    bucket.server.client().delete_object(Bucket=bucket.name, Key=list_of(table, "lost").split(f"{bucket.name}/", 1)[1])
    for name, fault in STORE_FAULTS.items():
        if name == "repeated":
            continue
        proxy.clear()
        proxy.on(lists_all, fault, times=None)
        found = site.plan(JOB).table("db.t")
        assert not going(found), name
    proxy.clear()
    plan = site.plan(JOB)
    assert going(plan.table("db.t")) == {"lost"}
    proxy.on(lists_all, FAULTS["denied"], times=None)
    assert site.apply(plan).changed == {"refs": 0}
    assert refs(table) == {"main", "work", "lost"}
