"""Plan and apply on an S3 server: spellings, versions, tags, trash, owners, and a bucket that goes away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from lakewarden.model.errors import MissingStoreError, NothingAppliedError
from lakewarden.steps.apply import removal
from tests.steps.apply.s3.conftest import S3World
from tests.steps.apply.test_crash import Crash, crashing
from tests.support.buckets import Bucket
from tests.support.worlds import at_batch, hand_plan

MakeS3World = Callable[..., S3World]


def key(uri: str) -> str:
    return uri.split("/", 3)[3]


def left(bucket: Bucket, world: S3World) -> list[str]:
    keys = bucket.keys("wh/")
    return [uri for uri in world.planted_uris if key(uri) in keys]


@pytest.mark.usefixtures("spark")
def test_the_whole_way_with_mixed_spellings(s3_world: MakeS3World, bucket: Bucket) -> None:
    """One table is spelled s3, one s3a, as engines do: the same bucket, so the same files."""
    world = s3_world(("s3", "s3a"), batch_size=5)
    # A file that the s3 table's history knows by its s3a name.
    world.table("sales.t1").append(world.table("sales.t0").scan().to_arrow())
    before, rows = bucket.keys("wh/"), world.rows()
    out = f"s3://{bucket.name}/plans/mine"
    plan = world.plan(out=out, unsafe_short_grace=world.uuids())
    assert [table.refusal for table in plan.plan.tables] == [None, None]
    assert {row["uri"] for row in world.warden.plan_rows(out, "orphan")} == set(world.planted_uris)
    assert plan.path == f"{out}/"
    assert "plans/mine/plan.json" in bucket.keys("plans/")
    assert bucket.keys("wh/") == before

    result = world.apply(out)

    assert (result.status, result.deleted.files) == ("done", 12)
    assert before - bucket.keys("wh/") == {key(uri) for uri in world.planted_uris}
    assert world.rows() == rows
    assert ".lakewarden/owner.json" in bucket.keys(".lakewarden/")
    assert any(name.startswith("state-world0/journal-heads/") for name in bucket.keys("state-world0/"))
    assert world.warden.audit_verify()["ok"]
    again = world.plan(unsafe_short_grace=world.uuids())
    assert again.plan.totals()["changes"].get("files", 0) == 0
    assert again.path.startswith(f"s3://{bucket.name}/state-world0/plans/")


def test_a_commit_between_batches_keeps_what_it_added_under_another_spelling(
    s3_world: MakeS3World, bucket: Bucket
) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    world = s3_world(("s3", "s3a"), batch_size=1)
    data = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([1000], pa.int64()), "part": ["a"]}), data)
    late = bucket.put(f"wh/{world.base.name}/sales/t0/zzz/late.parquet", data.getvalue())
    plan = hand_plan(world, [*world.planted_uris, late])
    add = late.replace("s3://", "s3a://")
    result = world.apply(plan, progress=at_batch(1, lambda: world.table("sales.t1").add_files([add])))
    assert key(late) in bucket.keys("wh/")
    assert (result.deleted.files, result.kept["revalidated"]) == (12, 1)
    assert world.rows()["sales.t1"][-1]["id"] == 1000


def test_a_versioned_bucket_hides(s3_world: MakeS3World, bucket: Bucket) -> None:
    bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    world = s3_world()
    result = world.apply(hand_plan(world, world.planted_uris))
    assert (result.status, result.deleted.files) == ("done", 6)
    assert list(world.warden.run_detail(result.run_id)["outcomes"]) == ["hidden"]
    assert left(bucket, world) == []
    versions = bucket.client.list_object_versions(Bucket=bucket.name, Prefix="wh/")["Versions"]
    assert {key(uri) for uri in world.planted_uris} <= {item["Key"] for item in versions}


def test_what_a_crash_left_hidden_is_recorded_as_hidden(
    s3_world: MakeS3World, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    world = s3_world(state_in_bucket=False)
    plan = hand_plan(world, world.planted_uris)
    with monkeypatch.context() as patched:
        crashing(patched, removal, "delete", after=True)
        with pytest.raises(Crash):
            world.apply(plan)
    assert left(bucket, world) == []
    assert world.apply(plan).deleted.files == 6
    assert set(world.warden.run_detail(world.warden.runs()[0]["run_id"])["outcomes"]) == {"hidden"}


def test_replaced_and_absent_objects(s3_world: MakeS3World, bucket: Bucket) -> None:
    world = s3_world()
    plan = hand_plan(world, world.planted_uris)
    changed, gone, *_ = world.planted_uris
    bucket.put(key(changed), b"\1" * 64)
    bucket.client.delete_object(Bucket=bucket.name, Key=key(gone))
    result = world.apply(plan)
    assert (result.deleted.files, result.absent, result.kept["revalidated"]) == (4, 1, 1)
    assert left(bucket, world) == [changed]


@pytest.mark.parametrize("moment", ["before apply", "between batches"])
def test_a_bucket_that_goes_away(s3_world: MakeS3World, bucket: Bucket, moment: str) -> None:
    """No file is absent because its bucket is: the run stops, and its record says only what was done."""
    world = s3_world(state_in_bucket=False, batch_size=2)
    plan = hand_plan(world, world.planted_uris)
    if moment == "before apply":
        bucket.destroy()
        with pytest.raises(MissingStoreError):
            world.apply(plan)
    else:
        with pytest.raises(MissingStoreError):
            world.apply(plan, progress=at_batch(2, bucket.destroy))
    run = world.warden.run_detail(world.warden.runs()[0]["run_id"])
    assert run["finished_at"] is None
    assert run["open_batches"] == []
    done = {name: tally["files"] for name, tally in run["outcomes"].items()}
    assert done == ({} if moment == "before apply" else {"deleted": 2})


def test_the_owner_record_keeps_other_deployments_out(s3_world: MakeS3World, bucket: Bucket) -> None:
    first, second = s3_world(), s3_world()
    plan = hand_plan(second, second.planted_uris)
    first.apply(hand_plan(first, first.planted_uris))
    with pytest.raises(NothingAppliedError, match="deployment"):
        second.apply(plan)
    assert len(left(bucket, second)) == 6
    assert {entry["code"] for entry in second.warden.doctor()["refused"]} == {"LW-ROOT-006"}


def test_quarantine_restore_and_purge_in_a_bucket(
    s3_world: MakeS3World, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = s3_world(delete_mode="quarantine")
    first = world.apply(hand_plan(world, world.planted_uris))
    assert (first.quarantined.files, left(bucket, world)) == (6, [])
    trash = bucket.keys("state-world0/trash/")
    assert {name.split("/s3/", 1)[1] for name in trash} == {f"{bucket.name}/{key(uri)}" for uri in world.planted_uris}
    assert world.warden.restore(first.run_id).changed == {"restored": 6}
    assert left(bucket, world) == world.planted_uris

    second = world.apply(hand_plan(world, world.planted_uris))
    clock = type(world.warden._deployment.clock)
    now = clock.now

    def in_eight_days(self: object) -> datetime:
        return now(self) + timedelta(days=8)  # type: ignore[arg-type]

    monkeypatch.setattr(clock, "now", in_eight_days)
    third = world.apply(hand_plan(world, []))
    assert bucket.keys("state-world0/trash/") == set()
    purged = [step["detail"] for step in world.warden.run_detail(third.run_id)["steps"] if step["name"] == "purge"]
    assert {(step["run"], step["files"]) for step in purged} == {(first.run_id, 6), (second.run_id, 6)}
