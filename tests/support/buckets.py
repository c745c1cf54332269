"""A bucket of a test's own on the tests' S3 server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.storage import Seaweed


@dataclass
class Bucket:
    """One bucket and what the tests ask of it."""

    server: Seaweed
    name: str
    client: Any = field(repr=False)

    def keys(self, prefix: str = "") -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return {item["Key"] for page in pages for item in page.get("Contents", ())}

    def put(self, key: str, data: bytes = b"\0" * 64) -> str:
        self.client.put_object(Bucket=self.name, Key=key, Body=data)
        return f"s3://{self.name}/{key}"

    def destroy(self) -> None:
        """All objects, versions and the bucket itself."""
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=self.name)
        for page in pages:
            for item in [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]:
                self.client.delete_object(Bucket=self.name, Key=item["Key"], VersionId=item["VersionId"])
        for key in self.keys():
            self.client.delete_object(Bucket=self.name, Key=key)
        self.client.delete_bucket(Bucket=self.name)


@pytest.fixture
def bucket(seaweed: Seaweed) -> Iterator[Bucket]:
    """A bucket of this test's own: one deployment owns a bucket."""
    client = seaweed.client()
    found = Bucket(seaweed, f"l{uuid.uuid4().hex[:12]}", client)
    client.create_bucket(Bucket=found.name)
    yield found
    if found.name in {item["Name"] for item in client.list_buckets()["Buckets"]}:
        found.destroy()
