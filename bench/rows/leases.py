"""Leases: workers that come at once, on the S3 server; one object a group beside one document for all of them."""

from __future__ import annotations

import uuid
from functools import partial

from bench.bench import Bench
from bench.measure import Figures, Row, Sample, load
from lakewarden.storage.stores import Stores
from tests.support.lease_workers import Crowd, Tally, one_document, one_object_a_group
from tests.support.seaweed import s3_client
from tests.support.spark import REGION

BUCKET = "leases"
WORKERS = (2, 5, 10, 50, 100)
# Of the acquisitions of workers that do not come at once: how many writes may be overtaken by another's.
CONFLICTS = {2: 0.02, 5: 0.05}
P99_SECONDS, AT_WORKERS = 1.0, 50


def leases(bench: Bench) -> list[Row]:
    """The slowest of a hundred acquisitions, in seconds. Each worker has two groups of its own to get through."""
    server = bench.server
    client = s3_client(server.endpoint, server.access_key, server.secret_key)
    if BUCKET not in {found["Name"] for found in client.list_buckets().get("Buckets", [])}:
        client.create_bucket(Bucket=BUCKET)
    options = {
        "endpoint": server.endpoint,
        "access_key_id": server.access_key,
        "secret_access_key": server.secret_key,
        "region": REGION,
        "allow_http": "true",
    }
    stores = partial(Stores, {f"s3://{BUCKET}": options})
    rows = []
    for workers in WORKERS:
        for within in (0.0, 5.0) if workers in CONFLICTS else (0.0,):
            rows.append(_row(bench, stores, workers, within))
    return rows


def _row(bench: Bench, stores: partial[Stores], workers: int, within: float) -> Row:
    began = load()
    ours: list[Tally] = []
    seed: list[Tally] = []
    for _ in range(bench.repeat):
        for found, design in ((ours, one_object_a_group), (seed, one_document)):
            base = f"s3://{BUCKET}/{uuid.uuid4().hex}/"
            found.append(Crowd(stores, base, workers, groups=2 * workers, within=within).run(design))
    mine, other = (Figures.of([Sample(tally.p99()) for tally in side]) for side in (ours, seed))
    conflicts = [max(tally.conflict_share() for tally in side) for side in (ours, seed)]
    failed = [sum(tally.failed for tally in side) for side in (ours, seed)]
    apart = workers in CONFLICTS and within > 0
    arrival = f"within {within:g} s" if within else "at once"
    return Row(
        f"leases-{workers}{'-apart' if within else ''}",
        f"p99 of taking a lease, {workers} workers {arrival}, {2 * workers} groups",
        mine,
        other,
        conflicts[0] if apart else mine.value,
        CONFLICTS[workers] if apart else P99_SECONDS,
        (began, load()),
        at_most=True,
        note=(
            f"{'ratio: share of writes that were overtaken' if apart else 'ratio: seconds'}; of {bench.repeat} × {workers} "
            f"workers {failed[0]} failed (other: {failed[1]}); overtaken {conflicts[0]:.1%} (other: {conflicts[1]:.1%}). "
            "Other: one document with all leases, five tries"
        ),
    )
