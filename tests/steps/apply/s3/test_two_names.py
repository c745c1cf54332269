"""One bucket under two names, as an access-point alias has it: said in the settings it is one, unsaid it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakewarden.model import uri
from lakewarden.model.uri import FileUri, canonical
from lakewarden.steps.observe.clocks import store_now
from lakewarden.steps.observe.fleet import load_fleet
from lakewarden.steps.observe.owners import claim_place, owner_record
from tests.support.buckets import Bucket
from tests.support.deployments import Deployed
from tests.support.fault_proxy import Answer, Request, Send, fault_proxy, method
from tests.support.lakes import Lake, write_table

ALIAS = "warehouse-alias"


@pytest.fixture(autouse=True)
def _names_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uri, "_one_name", {})


@pytest.fixture
def endpoint(bucket: Bucket) -> Iterator[str]:
    """The tests' server, where a second name leads to the bucket. The server signs by paths, so requests are signed anew."""
    server = bucket.server
    credentials = Credentials(server.access_key, server.secret_key)

    def renamed(request: Request, send: Send) -> Answer:
        target = request.target.replace(f"/{ALIAS}", f"/{bucket.name}", 1)
        headers = {n: v for n, v in request.headers if n.lower() not in ("authorization", "x-amz-date", "host")}
        signed = AWSRequest(request.method, f"{server.endpoint}{target}", headers, request.body)
        S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(signed)
        sent = tuple((name, str(value)) for name, value in signed.headers.items())
        host = ("Host", server.endpoint.removeprefix("http://"))
        return send(Request(request.method, target, (host, *sent), request.body))

    with fault_proxy(server.endpoint) as proxy:
        proxy.on(method(path=f"/{ALIAS}"), renamed, times=None)
        yield proxy.endpoint


def deployed(base: Path, bucket: Bucket, endpoint: str, storage: dict[str, dict[str, str]]) -> Deployed:
    server = bucket.server
    values = {
        "type": "sql", "uri": f"sqlite:///{base}/catalog.db", "warehouse": f"s3://{bucket.name}/wh",
        "s3.endpoint": endpoint, "s3.access-key-id": server.access_key, "s3.secret-access-key": server.secret_key,
        "s3.region": "us-east-1",
    }  # fmt: skip
    catalog = Lake("lake", values, (), base).catalog()
    catalog.create_namespace("ns")
    for number, store in enumerate((bucket.name, ALIAS)):
        write_table(catalog, f"ns.t{number}", location=f"s3://{store}/wh/t{number}", appends=1)
    catalog.close()
    return Deployed(base, {"lake": values}, storage=storage)


def test_two_names_of_one_bucket_are_noticed_and_refused(tmp_path: Path, bucket: Bucket, endpoint: str) -> None:
    with deployed(tmp_path, bucket, endpoint, {}) as world:
        deployment = world.warden._deployment
        fleet = load_fleet(deployment, deployment.clock.now() - timedelta(days=7))
        found = {root.prefix: root.refusal for root in store_now(deployment, fleet.roots)}
    assert {prefix: why and why.code for prefix, why in found.items()} == {
        f"s3://{bucket.name}/wh/t0/": "LW-STORE-008",
        f"s3://{ALIAS}/wh/t1/": "LW-STORE-008",
    }


def test_our_own_record_under_a_name_we_never_wrote_is_refused(tmp_path: Path, bucket: Bucket, endpoint: str) -> None:
    with deployed(tmp_path, bucket, endpoint, {}) as world:
        deployment = world.warden._deployment
        assert claim_place(deployment, owner_record(f"s3://{bucket.name}/wh/t0/")) is None
        assert claim_place(deployment, owner_record(f"s3://{bucket.name}/wh/t9/")) is None
        refusal = claim_place(deployment, owner_record(f"s3://{ALIAS}/wh/t1/"))
        assert refusal is not None
        assert refusal.code == "LW-STORE-008"
        assert {entry["code"] for entry in world.warden.doctor()["refused"]} == {"LW-STORE-008"}


def test_what_the_settings_say_is_one(tmp_path: Path, bucket: Bucket, endpoint: str) -> None:
    same = {f"s3://{ALIAS}": {"same_as": f"s3://{bucket.name}"}}
    with deployed(tmp_path, bucket, endpoint, same) as world:
        deployment = world.warden._deployment
        assert canonical(f"s3a://{ALIAS}/wh/x") == f"s3://{bucket.name}/wh/x"
        assert FileUri.written(f"s3://{ALIAS}/wh/x").bucket == ALIAS
        fleet = load_fleet(deployment, deployment.clock.now() - timedelta(days=7))
        found = {root.prefix: root.refusal for root in store_now(deployment, fleet.roots)}
        assert found == {f"s3://{bucket.name}/wh/t{number}/": None for number in (0, 1)}
        # The settings can be read a second time in one process.
        world.close()
        assert world.warden.doctor()["refused"] == []
