"""A real REST catalog over tables in a bucket, with the store's keys in the configuration or handed out by the server."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from lakewarden.model.errors import StoreUnavailableError
from tests.formats.iceberg.catalogs.conftest import NO_GRACE, RestLake, S3World, Serve, fill
from tests.formats.iceberg.catalogs.fronts import front, overriding
from tests.support.buckets import Bucket
from tests.support.lakes import ORPHAN_NAMES
from tests.support.worlds import hand_plan, write_config

TABLES = ("sales.orders", "web.clicks")


@pytest.fixture(autouse=True)
def _no_keys_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def keys(bucket: Bucket) -> dict[str, str]:
    return {"s3.access-key-id": bucket.server.access_key, "s3.secret-access-key": bucket.server.secret_key}


def place(bucket: Bucket) -> dict[str, str]:
    return {"s3.endpoint": bucket.server.endpoint, "s3.region": "us-east-1"}


def start(bucket: Bucket, serve: Serve, **more: str) -> str:
    """The address of a catalog over the bucket."""
    properties = {
        "warehouse": f"s3://{bucket.name}/wh", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.path-style-access": "true", "client.region": "us-east-1",
    }  # fmt: skip
    return serve(properties | keys(bucket) | place(bucket) | more).uri


def world_of(bucket: Bucket, base: Path, properties: dict[str, str], server_uri: str) -> S3World:
    """Two tables with six orphans each, and a deployment that knows of the store what `properties` say."""
    base.mkdir()
    lake = RestLake("lake", {"type": "rest", "uri": server_uri, **keys(bucket), **place(bucket)}, TABLES, base)
    fill(lake.catalog(), TABLES)
    planted = [
        bucket.put(f"{lake.catalog().load_table(name).location().split('/', 3)[3]}/{orphan.format(uuid.uuid4())}")
        for name in TABLES
        for orphan in ORPHAN_NAMES
    ]
    config = write_config(base, "lake", {"type": "rest", "uri": server_uri, **properties}, **NO_GRACE)
    return S3World(base, lake, config, bucket=bucket, planted_uris=planted)


def key(uri: str) -> str:
    return uri.split("/", 3)[3]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("known", ["everything", "nothing"])
def test_the_whole_way(bucket: Bucket, serve: Serve, tmp_path: Path, known: str) -> None:
    """What the configuration does not say of the store comes from the server: keys by the table, the rest by `/v1/config`.

    They open a table's directory and nothing else, so the place of the bucket's owner record is configured.
    """
    # It hands its own keys to whoever loads a table, but no endpoint.
    server_uri = start(bucket, serve, **{"include-credentials": "true"})
    properties = keys(bucket) | place(bucket) if known == "everything" else {}
    with front(server_uri, overriding({} if properties else place(bucket))) as uri:
        world = world_of(bucket, tmp_path / "world", properties, uri)
        if not properties:
            open_owner_record(world, bucket)
        before, rows = bucket.keys("wh/"), world.rows()
        plan = world.plan(unsafe_short_grace=world.uuids())
        assert [table.refusal for table in plan.plan.tables] == [None, None]
        result = world.apply(plan)
        assert (result.status, result.deleted.files) == ("done", 12)
        assert before - bucket.keys("wh/") == {key(uri) for uri in world.planted_uris}
        assert world.rows() == rows
        assert bucket.server.secret_key not in world.warden.load_plan(plan.path).plan.dumps().decode()
        world.close()


def open_owner_record(world: S3World, bucket: Bucket) -> None:
    options = {name: value for name, value in bucket.server.options().items() if name != "allow_http"}
    with world.config.open("a") as config:
        config.write(f'[storage."s3://{bucket.name}/.lakewarden"]\n')
        config.writelines(f'{name} = "{value}"\n' for name, value in options.items())


def test_keys_of_the_server_at_the_endpoint_of_the_configuration(bucket: Bucket, serve: Serve, tmp_path: Path) -> None:
    uri = start(bucket, serve, **{"include-credentials": "true"})
    world = world_of(bucket, tmp_path / "world", place(bucket), uri)
    open_owner_record(world, bucket)
    result = world.apply(hand_plan(world, world.planted_uris))
    assert (result.status, result.deleted.files) == ("done", 12)
    world.close()


def test_without_keys_from_anywhere_nothing_is_planned(bucket: Bucket, serve: Serve, tmp_path: Path) -> None:
    """The same lake behind a server that hands out nothing: what the test above shows is the server's doing."""
    world = world_of(bucket, tmp_path / "world", place(bucket), start(bucket, serve))
    open_owner_record(world, bucket)
    before = bucket.keys("wh/")
    with pytest.raises(StoreUnavailableError):
        hand_plan(world, world.planted_uris)
    assert bucket.keys("wh/") == before
    world.close()
