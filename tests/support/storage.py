"""Stores for tests: memory, local disk and a real S3 server, one fresh root each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakewarden.storage.stores import Stores
from tests.support.seaweed import s3_client, start_seaweed

SHARED = "shared"


@dataclass(frozen=True)
class Seaweed:
    """A running S3 server."""

    endpoint: str
    access_key: str
    secret_key: str

    def client(self) -> Any:
        return s3_client(self.endpoint, self.access_key, self.secret_key)

    def options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "region": "us-east-1",
            "allow_http": "true",
        }

    def fresh(self) -> tuple[Stores, str]:
        """A fresh directory of the shared bucket: the server has room for few buckets."""
        return Stores({f"s3://{SHARED}": self.options()}), f"s3://{SHARED}/{uuid.uuid4().hex}/"

    def bucket(self) -> str:
        """A new empty bucket's name."""
        name = f"b{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    endpoint, access, secret, stop = start_seaweed(tmp_path_factory.mktemp("seaweed"))
    try:
        server = Seaweed(endpoint, access, secret)
        server.client().create_bucket(Bucket=SHARED)
        yield server
    finally:
        stop()


@dataclass(frozen=True)
class Place:
    """A fresh directory address in some store."""

    stores: Stores
    root: str
    kind: str

    def uri(self, name: str) -> str:
        return self.root + name


@pytest.fixture(params=["memory", "local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The contract suite's place, on every kind of store."""
    return make_place(request.param, request, tmp_path)


def make_place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if kind == "memory":
        return Place(Stores(), f"memory://m{uuid.uuid4().hex}/wh/", kind)
    if kind == "local":
        (tmp_path / "wh").mkdir()
        return Place(Stores(), f"file://{tmp_path}/wh/", kind)
    server: Seaweed = request.getfixturevalue("seaweed")
    stores, root = server.fresh()
    return Place(stores, f"{root}wh/", kind)
