"""Tables in a bucket of an S3 server on this machine, warm."""

from __future__ import annotations

from dataclasses import replace

from bench.bench import Bench
from bench.measure import Row
from bench.peer import Peer
from bench.rows.local import versus


def one(bench: Bench) -> list[Row]:
    peer, note = _peer(bench, "s3-one")
    return [
        versus(bench, "s3-one", f"one table, {peer.lake.shape.data_files:,} objects, S3 server", peer, 4, note=note)
    ]


def fleet100(bench: Bench) -> list[Row]:
    peer, note = _peer(bench, "s3-fleet100")
    return [
        versus(bench, "s3-fleet100", f"{peer.lake.shape.tables} tables of 100 objects, S3 server", peer, 20, note=note)
    ]


def _peer(bench: Bench, kind: str) -> tuple[Peer, str]:
    """Iceberg's S3FileIO in the faster of its two listing modes, where the other one can run at all."""
    by_prefix = Peer.over(bench.spark, bench.server.lake(kind, bench.shrink), bench.server)
    by_directory = replace(by_prefix, prefix_listing=False)
    table = by_prefix.lake.tables()[:1]
    try:
        slow, fast = by_directory.orphans(table)[0], by_prefix.orphans(table)[0]
    except Exception as error:
        reasons = [text for text in str(error).splitlines() if "FileSystem" in text] or str(error).splitlines()
        return by_prefix, f"the peer's directory listing cannot run with S3FileIO ({reasons[0].strip()[:100]})"
    return (by_prefix if fast.seconds <= slow.seconds else by_directory), ""
