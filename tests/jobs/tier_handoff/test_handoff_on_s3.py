"""Tier handover on an S3 server: server-side copies between buckets, classes, tags, and the way back."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from lakewarden.model.run import RunStatus
from lakewarden.storage import s3
from lakewarden.storage.copying import copy_verified
from tests.jobs.snapshot_expiry.expiry_site import Site, rows_at
from tests.jobs.tier_handoff.aged import HANDOFF, age_out, detail_of, hand_over, ids_of, made, shown
from tests.support.storage import Seaweed


@dataclass
class Buckets:
    """A hot and a cold bucket, and the deployment between them."""

    site: Site
    hot: str
    cold: str
    client: Any

    def keys(self, bucket: str) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {item["Key"] for page in pages for item in page.get("Contents", ())}

    def empty(self, bucket: str) -> None:
        for key in self.keys(bucket):
            self.client.delete_object(Bucket=bucket, Key=key)


@pytest.fixture
def buckets(seaweed: Seaweed, tmp_path: Path) -> Iterator[Buckets]:
    client = seaweed.client()
    names = [f"{kind}{uuid.uuid4().hex[:10]}" for kind in ("hot", "cold")]
    for name in names:
        client.create_bucket(Bucket=name)
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{names[0]}/wh",
        "s3.endpoint": seaweed.endpoint,
        "s3.access-key-id": seaweed.access_key,
        "s3.secret-access-key": seaweed.secret_key,
        "s3.region": "us-east-1",
    }
    site = Site(tmp_path, {"lake": properties})
    site.sections["tier_handoff"] = {"dry_run": False, "destination": f"s3://{names[1]}/lake"}
    site.catalog().create_namespace("sales")
    found = Buckets(site, names[0], names[1], client)
    with site:
        yield found
    for name in names:
        found.empty(name)
        client.delete_bucket(Bucket=name)


def key(address: str) -> str:
    return address.split("/", 3)[3]


def cold_of(buckets: Buckets, seen: Any) -> StaticTable:
    properties = {key: value for key, value in buckets.site.catalogs["lake"].items() if key.startswith("s3.")}
    return StaticTable.from_metadata(str(detail_of(seen)["cold"]).rstrip("/"), properties)


def test_there_and_back_between_two_buckets(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    site = buckets.site
    site.sections["tier_handoff"]["storage_class"] = "STANDARD_IA"
    table = made(site.catalog())
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:3])
    copies: list[str] = []
    real = s3.S3Calls.copy_from

    def counted(self: s3.S3Calls, bucket: str, src: str, dst: str) -> None:
        copies.append(src)
        real(self, bucket, src, dst)

    monkeypatch.setattr(s3.S3Calls, "copy_from", counted)

    seen, result = hand_over(site)

    assert (result.status, dict(result.changed)) == (RunStatus.DONE, {"snapshots": 3, "files": 12})
    data = [row for row in seen.rows if row["kind"] == "data"]
    assert sorted(copies) == sorted(key(row["uri"]) for row in data), "by the server, each once"
    classes = [buckets.client.head_object(Bucket=buckets.cold, Key=key(row["reason"])) for row in data]
    assert {found["StorageClass"] for found in classes} == {"STANDARD_IA"}
    buckets.empty(buckets.hot)
    assert shown(cold_of(buckets, seen), ids[:3]) == {number: rows[number] for number in ids[:3]}

    site.warden.restore_cold(str(ids[1]), "lake.sales.back")

    assert rows_at(site.catalog().load_table("sales.back")) == rows[ids[1]]
    assert all(key.startswith("wh/sales/back-") for key in buckets.keys(buckets.hot))


@pytest.mark.parametrize("place", ["file://{disk}/cold", "s3://{hot}/cold"])
def test_through_us_to_a_disk_and_within_a_bucket(buckets: Buckets, tmp_path: Path, place: str) -> None:
    site = buckets.site
    site.sections["tier_handoff"]["destination"] = place.format(disk=tmp_path, hot=buckets.hot)
    table = made(site.catalog(), appends=3)
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:2])
    seen, result = hand_over(site)
    assert result.status is RunStatus.DONE
    assert shown(cold_of(buckets, seen), ids[:2]) == {number: rows[number] for number in ids[:2]}


def test_classes_and_tags_and_what_a_live_ref_reaches(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two expired snapshots' files, a tag still reaches the first ones: these are never locked up."""
    site = buckets.site
    site.sections["tier_handoff"]["storage_class"] = "GLACIER"
    table = made(site.catalog(), appends=3)
    ids = ids_of(table)
    live = {task.file.file_path for task in table.scan(snapshot_id=ids[0]).plan_files()}
    # The newest snapshot drops everything, so that only the tag reaches the oldest files.
    table.manage_snapshots().create_tag(ids[0], "kept").commit()
    table.delete()
    table = table.refresh()
    last = ids_of(table)
    age_out(site, table, [number for number in last[1:-1]])
    asked: dict[str, str] = {}
    real = s3.S3Calls.reclass

    def seen_class(self: s3.S3Calls, key: str, storage_class: str) -> None:
        asked[key] = storage_class
        real(self, key, storage_class)

    monkeypatch.setattr(s3.S3Calls, "reclass", seen_class)
    config = Path(site.config())
    config.write_text(
        config.read_text().replace('storage_class = "GLACIER"', 'storage_class = "GLACIER"\ntags = { tier = "cold" }')
    )
    site.close()
    monkeypatch.setattr(site, "config", lambda: str(config), raising=False)

    seen, result = hand_over(site)

    assert result.status is RunStatus.DONE
    data = {row["uri"]: row for row in seen.rows if row["kind"] == "data"}
    assert {uri for uri, row in data.items() if row["verdict"] == "live"} == live
    locked = {key(row["reason"]) for uri, row in data.items() if uri not in live}
    assert locked
    assert asked == dict.fromkeys(locked, "GLACIER"), "neither live files nor metadata"
    tags = [buckets.client.get_object_tagging(Bucket=buckets.cold, Key=key(row["reason"])) for row in seen.rows]
    assert [found["TagSet"] for found in tags] == [[{"Key": "tier", "Value": "cold"}]] * len(tags)
    assert site.plan(HANDOFF).plan.totals()["changes"] == {"snapshots": 0, "files": 0}


@pytest.mark.parametrize(
    ("how", "size", "vouched"),
    [
        ({}, 1, "md5:"),
        ({"parts": True}, 1, ""),
        ({"parts": True, "ChecksumAlgorithm": "SHA256"}, 1, ""),
        # The server copies this one in parts, as it would one of more than 5 GB.
        ({}, 9 << 20, ""),
    ],
)
def test_a_copy_by_the_server_is_proven(buckets: Buckets, how: dict[str, Any], size: int, vouched: str) -> None:
    """By the server's own digest where it has one; an upload in parts has none, and both ends are read."""
    client, data = buckets.client, b"x" * size + bytes(range(256)) * 64
    how = dict(how)
    if how.pop("parts", False):
        upload = client.create_multipart_upload(Bucket=buckets.hot, Key="x", **how)["UploadId"]
        part = client.upload_part(Bucket=buckets.hot, Key="x", UploadId=upload, PartNumber=1, Body=data, **how)
        parts = {"Parts": [{"PartNumber": 1, **{k: v for k, v in part.items() if k in ("ETag", "ChecksumSHA256")}}]}
        client.complete_multipart_upload(Bucket=buckets.hot, Key="x", UploadId=upload, MultipartUpload=parts)
    else:
        client.put_object(Bucket=buckets.hot, Key="x", Body=data)
    stores = buckets.site.warden._deployment.stores
    spent: list[int] = []
    copied = copy_verified(stores, f"s3://{buckets.hot}/x", f"s3://{buckets.cold}/y", len(data), spent.append)
    assert copied.size == len(data)
    assert client.get_object(Bucket=buckets.cold, Key="y")["Body"].read() == data
    if vouched:
        assert (copied.sha256, spent) == (vouched + hashlib.md5(data).hexdigest(), [len(data)])
    else:
        assert copied.sha256 in (hashlib.sha256(data).hexdigest(), "sha256:" + _base64(data))


def _base64(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()
