"""The jobs of a day on an S3 server, beside the same day on local disk: the same files are left, and every ref reads back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lakewarden.model.run import RunResult
from lakewarden.model.verdict import Brake
from tests.formats.paimon.histories import History, Library, backdate, plant
from tests.formats.paimon.reading import Ref, rows_by_java
from tests.formats.paimon.site import DELETION, EXPIRY, ORPHANS, PARTITIONS, Site, check_rows, name_of
from tests.support.buckets import Bucket

NAMES = (
    "partition_overwrites",
    "odd_partition_values",
    "branch_with_commits",
    "key_deletion_vectors",
    "decoupled_changelog",
    "several_tags",
)
AGING = "partition_overwrites"


@dataclass(frozen=True)
class Places:
    """The same histories in a bucket and on disk."""

    bucket: Bucket
    remote: Site
    local: Site
    histories: dict[str, History]
    leftovers: set[str]


@pytest.fixture
def places(library: Library, bucket: Bucket, tmp_path: Path) -> Iterator[Places]:
    local = Site(tmp_path / "local")
    histories = {name: library.copy_of(name, local.warehouse()) for name in NAMES}
    leftovers = set()
    for history in histories.values():
        backdate(history, 12)
        leftovers |= {key_of(local, path) for path in plant(history, hours=0)}
    remote = Site(tmp_path / "remote", address=f"s3://{bucket.name}/")
    remote.storage = {f"s3://{bucket.name}": bucket.server.options()}
    for path in local.warehouse().rglob("*"):
        if path.is_file():
            bucket.put(key_of(local, path), path.read_bytes())
    for site in (remote, local):
        # On S3 no file can be made old, so the cut-off is now.
        site.sections["orphan_cleanup"]["grace_period_hours"] = 0
    with remote, local:
        yield Places(bucket, remote, local, histories, leftovers)


def key_of(site: Site, path: Path) -> str:
    return str(path.relative_to(site.base))


def clean(site: Site) -> RunResult:
    uuids = [table["uuid"] for table in site.warden.tables()]
    return site.apply(site.plan(ORPHANS, unsafe_short_grace=uuids))


def fetched(places: Places, home: Path) -> dict[str, History]:
    """The bucket's tables, brought to this disk, where both libraries can read them."""
    for key in places.bucket.keys("lake/"):
        path = home / key
        path.parent.mkdir(parents=True, exist_ok=True)
        body = places.bucket.client.get_object(Bucket=places.bucket.name, Key=key)["Body"]
        path.write_bytes(body.read())
    return {
        name: replace(
            history, warehouse=home / "lake", location=home / "lake" / history.location.relative_to(history.warehouse)
        )
        for name, history in places.histories.items()
    }


def left(places: Places) -> tuple[set[str], set[str]]:
    """What is in the bucket, and on the disk."""
    on_disk = {key_of(places.local, path) for path in places.local.warehouse().rglob("*") if path.is_file()}
    return tuple({key for key in keys if ".lakewarden" not in key} for keys in (places.bucket.keys("lake/"), on_disk))  # type: ignore[return-value]


def test_a_day_on_s3_ends_as_a_day_on_disk(places: Places, tmp_path: Path) -> None:
    for site in (places.remote, places.local):
        expired = site.run(EXPIRY)
        assert (expired.status, expired.failed) == ("done", ())
        waiting = site.plan(DELETION)
        assert waiting.plan.totals()["changes"] == {"files": 0}
        site.later(2)
        deleted = site.run(DELETION)
        assert (deleted.status, deleted.failed, deleted.absent) == ("done", (), 0)
        assert deleted.deleted.files > 40
        assert site.warden._deployment.ledger.pending.count() == 0
        site.later(-2)
        cleaned = clean(site)
        assert (cleaned.status, cleaned.failed) == ("done", ())
        assert site.warden.audit_verify()["ok"]
    remote, local = left(places)
    assert remote == local
    assert not remote & places.leftovers
    for history in [*places.histories.values(), *fetched(places, tmp_path / "back").values()]:
        check_rows(history)


def test_partitions_are_dropped_on_s3(places: Places, tmp_path: Path) -> None:
    places.remote.sections["partition_expiry"] = {"expiration_hours": 24}
    plan = places.remote.plan(PARTITIONS, name_of(places.histories[AGING]))
    result = places.remote.apply(plan, override_brakes=[Brake.TABLE_EMPTIED])
    assert (result.status, result.changed) == ("done", {"partitions": 3})
    history = fetched(places, tmp_path / "back")[AGING]
    assert rows_by_java(history.location, Ref(snapshot=7)) == ()
    check_rows(replace(history, refs={**history.refs, Ref(snapshot=7): ()}))
