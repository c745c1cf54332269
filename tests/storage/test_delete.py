"""The one door: what it refuses, and what it says of each file."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.model.errors import LeaseLostError, MissingStoreError, StaleValidationError
from lakewarden.model.ports import FileOutcome, JournalFile, Shard
from lakewarden.storage.delete import DeletePermit, delete, grant
from lakewarden.storage.listing import list_shard
from lakewarden.storage.stores import Stores
from tests.support.storage import Place, Seaweed


class Turned:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> datetime:
        return datetime(2024, 1, 1, tzinfo=UTC)

    def boot(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def fine() -> None:
    return


def listed(stores: Stores, root: str) -> list[JournalFile]:
    rows = [row for batch in list_shard(stores, Shard(0, root)) for row in batch.to_pylist()]
    return [JournalFile(r["key"], r["size"], r["modified"], r["etag"], "t", "data") for r in rows]


def permit(
    root: str, files: Sequence[JournalFile], lease: Callable[[], None] = fine, at: float = 1000.0
) -> DeletePermit:
    return grant(plan_id="p", run_id="r", roots=[root], uris=[f.uri for f in files], validated_at=at, check_lease=lease)


def run(stores: Stores, root: str, files: Sequence[JournalFile]) -> dict[str, str]:
    results = delete(permit(root, files), stores, files, Turned(), concurrency=4)
    assert [result.uri for result in results] == [file.uri for file in files]
    return {result.uri.removeprefix(root): result.outcome for result in results}


def filled(place: Place, names: Sequence[str]) -> list[JournalFile]:
    for name in names:
        place.stores.put(place.uri(name), b"x")
    return listed(place.stores, place.root)


def test_each_file_has_its_outcome(place: Place) -> None:
    names = ["a%20b", "a+b", "a#1", "ü", "100%", "d/e/f", "kept"] + [f"many/{i}" for i in range(40)]
    files = filled(place, names)
    changed, absent = place.uri("d/e/f"), place.uri("many/7")
    place.stores.put(changed, b"other bytes")
    run(place.stores, place.root, [f for f in files if f.uri == absent])
    results = run(place.stores, place.root, [f for f in files if not f.uri.endswith("kept")])
    assert results.pop("d/e/f") == "changed"
    assert results.pop("many/7") == "absent"
    assert set(results.values()) == {"deleted"}
    assert {f.uri for f in listed(place.stores, place.root)} == {place.uri("kept"), changed}


def test_same_size_but_other_bytes_is_changed(place: Place) -> None:
    (file,) = filled(place, ["f"])
    place.stores.put(file.uri, b"y")
    assert run(place.stores, place.root, [file]) == {"f": "changed"}
    assert place.stores.get(file.uri) == b"y"


def test_without_a_tag_size_and_time_decide(place: Place) -> None:
    (file,) = filled(place, ["f"])
    untagged = dataclasses.replace(file, etag=None)
    assert run(place.stores, place.root, [dataclasses.replace(untagged, modified=None)]) == {"f": "changed"}
    wrong = dataclasses.replace(untagged, modified=datetime(2020, 1, 1, tzinfo=UTC))
    assert run(place.stores, place.root, [wrong]) == {"f": "changed"}
    stat = place.stores.head(file.uri)
    assert stat is not None
    assert run(place.stores, place.root, [dataclasses.replace(untagged, modified=stat.modified)]) == {"f": "deleted"}


def test_a_permit_cannot_be_made_or_widened_by_hand() -> None:
    made = permit("file:///a/", [])
    with pytest.raises(TypeError):
        DeletePermit("p", "r", ("file:///a/",), frozenset(), 0.0, fine, token=object())
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(made, roots=("file:///",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.roots = ()  # type: ignore[misc]
    for roots in ([], ["file:///"], ["s3://bucket"], ["s3://bucket/a", "s3://bucket/"]):
        with pytest.raises(ValueError, match="top"):
            grant(plan_id="p", run_id="r", roots=roots, uris=[], validated_at=0.0, check_lease=fine)


@pytest.mark.parametrize("age", [30.1, 3600.0, -1.0])
def test_an_old_validation_is_refused(place: Place, age: float) -> None:
    files = filled(place, ["f"])
    with pytest.raises(StaleValidationError):
        delete(permit(place.root, files, at=1000.0 - age), place.stores, files, Turned(), concurrency=1)
    assert place.stores.head(place.uri("f")) is not None


def test_a_lost_lease_is_refused(place: Place) -> None:
    def lost() -> None:
        raise LeaseLostError("gone")

    files = filled(place, ["f"])
    with pytest.raises(LeaseLostError):
        delete(permit(place.root, files, lease=lost), place.stores, files, Turned(), concurrency=1)
    assert place.stores.head(place.uri("f")) is not None


def test_a_lease_lost_in_the_middle_stops_the_rest(place: Place) -> None:
    calls = []
    # The door asks once, and then before every request; a look at an object store is one of those.
    held = 2 if place.kind == "local" else 3

    def lost_later() -> None:
        calls.append(1)
        if len(calls) > held:
            raise LeaseLostError("gone")

    # Enough files for two requests of the store.
    files = filled(place, [str(i) for i in range(1010 if place.kind == "local" else 60)])
    leased = permit(place.root, files, lease=lost_later)
    results = delete(leased, place.stores, files, Turned(), concurrency=2)
    assert {(r.outcome, r.code) for r in results} == {("deleted", None), ("failed", "LW-LEASE-002")}
    assert len(listed(place.stores, place.root)) == sum(r.outcome == "failed" for r in results)


def test_files_outside_the_permit_refuse_the_whole_batch(place: Place) -> None:
    files = filled(place, ["in/f", "out/f"])
    inside, outside = sorted(files, key=lambda f: f.uri)
    narrow = permit(place.uri("in"), files)
    with pytest.raises(PermissionError, match="outside the roots"):
        delete(narrow, place.stores, files, Turned())
    with pytest.raises(PermissionError, match="not a file of this batch"):
        delete(permit(place.root, [inside]), place.stores, [inside, outside], Turned())
    for name in ("in/../out/f", "in//f", "in/./f", "in/"):
        sneaky = dataclasses.replace(inside, uri=place.uri(name))
        with pytest.raises(PermissionError):
            delete(permit(place.uri("in"), [sneaky]), place.stores, [sneaky], Turned())
    assert {f.uri for f in listed(place.stores, place.root)} == {f.uri for f in files}


def test_a_neighbour_with_the_same_beginning_is_outside(place: Place) -> None:
    (file,) = filled(place, ["t_v2/f"])
    with pytest.raises(PermissionError):
        delete(permit(place.uri("t"), [file]), place.stores, [file], Turned())


def test_a_missing_mount_or_root_stops_everything(tmp_path: Path, seaweed: Seaweed) -> None:
    file = JournalFile(f"file://{tmp_path}/mnt/t/f", 1, None, "e", "t", "data")
    with pytest.raises(MissingStoreError):
        delete(permit(f"file://{tmp_path}/mnt/t", [file]), Stores(), [file], Turned())
    with pytest.raises(MissingStoreError):
        delete(permit(f"file://{tmp_path}/mnt/t", [file]), Stores({f"file://{tmp_path}/mnt": {}}), [file], Turned())
    gone = JournalFile("s3://no-such-bucket/t/f", 1, None, "e", "t", "data")
    stores = Stores({"s3://no-such-bucket": seaweed.options()})
    with pytest.raises(MissingStoreError):
        delete(permit("s3://no-such-bucket/t", [gone]), stores, [gone], Turned())


def test_a_directory_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "d").mkdir(parents=True)
    (root / "d" / "f").write_bytes(b"x")
    stores = Stores()
    (file,) = listed(stores, f"file://{root}/")
    os.rename(root / "d", outside)
    (root / "d").symlink_to(outside)
    assert run(stores, f"file://{root}/", [file]) == {"d/f": "failed"}
    assert (outside / "f").read_bytes() == b"x"


def test_a_file_swapped_for_a_link_or_directory_is_changed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in "ab":
        (root / name).write_bytes(b"x")
    stores = Stores()
    files = listed(stores, f"file://{root}/")
    os.rename(root / "a", tmp_path / "precious")
    (root / "a").symlink_to(tmp_path / "precious")
    os.rename(root / "b", tmp_path / "other")
    (root / "b").mkdir()
    assert run(stores, f"file://{root}/", files) == {"a": "changed", "b": "changed"}
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("may_ask", [True, False])
def test_versioned_buckets_only_hide(seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch, may_ask: bool) -> None:
    bucket, client = seaweed.bucket(), seaweed.client()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    stores, root = Stores({f"s3://{bucket}": seaweed.options()}), f"s3://{bucket}/t/"
    stores.put(root + "f", b"x")
    assert stores.at(root).versioned() is True
    if not may_ask:
        monkeypatch.setattr("lakewarden.storage.s3.S3Calls.versioning", lambda self: None)
    assert run(stores, root, listed(stores, root)) == {"f": "hidden"}
    versions = client.list_object_versions(Bucket=bucket, Prefix="t/f")
    assert len(versions["Versions"]) == 1


def test_the_bulk_call_itself_compares_the_tag(seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the delete another writer replaces the object: the store refuses that key."""
    from lakewarden.storage import answers

    stores, root = seaweed.fresh()
    for name in "ab":
        stores.put(root + name, b"x")
    files = listed(stores, root)
    real = answers.look

    def look_then_replace(store: object, keys: Sequence[str]) -> object:
        found = real(store, keys)  # type: ignore[arg-type]
        stores.put(root + "a", b"new")
        return found

    monkeypatch.setattr(answers, "look", look_then_replace)
    assert run(stores, root, files) == {"a": "changed", "b": "deleted"}
    assert stores.get(root + "a") == b"new"


def test_a_failed_bulk_call_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """obstore names only its first failure: what is still there is failed, what is gone was deleted."""
    import obstore

    stores, root = Stores(), f"memory://m{uuid.uuid4().hex}/t/"
    for name in "ab":
        stores.put(root + name, b"x")
    files = listed(stores, root)
    real = obstore.delete

    def half(client: object, paths: list[str]) -> None:
        real(client, paths[:1])  # type: ignore[call-overload]
        raise OSError("connection reset")

    monkeypatch.setattr(obstore, "delete", half)
    results: list[FileOutcome] = delete(permit(root, files), stores, files, Turned())
    assert [(r.outcome, r.code) for r in results] == [("deleted", None), ("failed", "LW-STORE-001")]
