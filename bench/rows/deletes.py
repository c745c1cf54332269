"""Deleting: a real apply with its limits off, against the store's bulk call driven flat out."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import obstore
from obstore.store import LocalStore

from bench.bench import Bench
from bench.lakes import Lake, Put, data_names, local_lake, put_local, tiny_parquet
from bench.measure import Figures, Row, Sample, load, timed
from bench.ours import Deployment, plan, uuids_of
from bench.s3 import Server
from lakewarden.steps.apply import removal
from lakewarden.storage.stores import Stores
from tests.support.spark import REGION

Tagged = Callable[[dict[str, str]], None]

FILES = 20_000
SETTINGS = {
    "default batches": "rate_limit_ms = 0\nmax_orphan_share = 1.0\n",
    "large batches": "rate_limit_ms = 0\nmax_orphan_share = 1.0\nbatch_size = 20000\nmax_concurrent_deletions = 20\n",
}
TARGET = 0.85
KEYS_A_CALL, CALLS = 1000, 20  # what obstore's bulk call does on S3


def deletes(bench: Bench) -> list[Row]:
    count = FILES // bench.shrink
    lake = local_lake(bench.scratch, "deletes", anew=True)
    root = lake.load(lake.tables()[0]).location().removeprefix("file://")
    rows = _compare(bench, lake, put_local, LocalStore(root), "local disk", count)
    bucket = "s3-deletes-1"
    remote, store = bench.server.lake("s3-deletes", anew=True), bench.server.store(bucket)
    tagged = partial(_delete_tagged, _client(bench.server, bucket), bucket)
    return rows + _compare(bench, remote, bench.server.put(bucket), store, "S3 server", count, tagged)


def _compare(
    bench: Bench, lake: Lake, put: Put, store: Any, where: str, count: int, with_tags: Tagged | None = None
) -> list[Row]:
    assert bench.spark
    location = lake.load(lake.tables()[0]).location()
    top = location if where == "local disk" else lake.warehouse.rpartition("/")[0]
    bulk: list[Sample] = []
    tagged: list[Sample] = []
    ours: dict[str, list[Sample]] = {name: [] for name in SETTINGS}
    began = load()
    # One for all: whoever deletes under a root first leaves its name there, and others keep off.
    deployment = Deployment.fresh(lake, bench.scratch)
    for _ in range(bench.repeat):
        names = list(data_names(location, count, lake.shape.partitions))
        put(names, tiny_parquet())
        keys = [name.removeprefix(f"{top}/") for name in names]
        bulk.append(timed(partial(obstore.delete, store, keys)))
        if with_tags is not None:
            put(names, tiny_parquet())
            tags = {found["path"]: found["e_tag"] for page in obstore.list(store) for found in page}
            tagged.append(timed(partial(with_tags, {key: tags[key] for key in sorted(keys)})))
        for name, settings in SETTINGS.items():
            put(list(data_names(location, count, lake.shape.partitions)), tiny_parquet())
            ours[name].append(_apply(deployment.with_settings(settings), count))
    deployment.discard()
    flat_out = Figures.of(bulk)
    return [
        Row(
            f"deletes-{'s3' if where == 'S3 server' else 'local'}-{name.split()[0]}",
            f"delete {count:,} files, {where}, {name}",
            mine := Figures.of(samples),
            flat_out,
            flat_out.value / mine.value,
            TARGET,
            (began, load()),
            note="share of the bulk call's speed" + _beside(tagged, mine),
        )
        for name, samples in ours.items()
    ]


def _beside(tagged: list[Sample], mine: Figures) -> str:
    """What the same call costs the server when it must compare a tag for every key, as ours does."""
    if not tagged:
        return ""
    same = Figures.of(tagged).value
    return f"; the same call with a tag to match for each key takes {same:.2f} s, of whose speed ours is {same / mine.value:.2f}"


def _client(server: Server, bucket: str) -> Any:
    """The very client that the door uses."""
    options = {"endpoint": server.endpoint, "access_key_id": server.access_key, "region": REGION}
    opened = Stores({f"s3://{bucket}": {**options, "secret_access_key": server.secret_key}}).at(f"s3://{bucket}/x")
    return vars(opened)["s3"].client


def _delete_tagged(client: Any, bucket: str, tags: dict[str, str]) -> None:
    objects = [{"Key": key, "ETag": tag} for key, tag in tags.items()]
    calls = [objects[start : start + KEYS_A_CALL] for start in range(0, len(objects), KEYS_A_CALL)]
    with ThreadPoolExecutor(CALLS) as pool:
        for answer in pool.map(
            lambda part: client.delete_objects(Bucket=bucket, Delete={"Objects": part, "Quiet": True}), calls
        ):
            assert not answer.get("Errors"), answer["Errors"][0]


def _apply(deployment: Deployment, count: int) -> Sample:
    """One apply of a fresh plan, split into the one door and everything around it."""
    warden = deployment.open()
    _, result = plan(deployment, warden, uuids_of(deployment.lake))
    inside = [0.0]
    # `delete` as the apply job imported it: the one door.
    door = vars(removal)["delete"]
    vars(removal)["delete"] = _counted(door, inside)
    try:
        took = timed(lambda: _check(warden.apply(result).deleted.files, count))
    finally:
        vars(removal)["delete"] = door
        warden.close()
    stages = {"delete": inside[0], "validate, journal, record": took.seconds - inside[0]}
    return Sample(took.seconds, stages)


def _counted(door: Callable[..., Any], inside: list[float]) -> Callable[..., Any]:
    def delete(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return door(*args, **kwargs)
        finally:
            inside[0] += time.perf_counter() - began

    return delete


def _check(deleted: int, count: int) -> None:
    assert deleted == count, f"{deleted} of {count} files were deleted"
