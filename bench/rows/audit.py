"""Audit questions: what was made from a snapshot, over live tables and over a large archive, on a warm session."""

from __future__ import annotations

import hashlib
import secrets
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.bench import Bench
from bench.measure import Figures, Row, Sample, load
from lakewarden.ledger.history import Entry, HistoryFile, Key
from lakewarden.pipeline.history.rows import HISTORY, month_of, packed
from tests.jobs.history.archived import ROWS, Site

LIVE, ARCHIVED, CHAIN, TABLES = 1_000, 1_000_000, 100_000, 100
ROWS_A_FILE = 50_000
FIRST_MS, APART_MS = 1_700_000_000_000, 1_000
LIVE_SECONDS, ARCHIVED_SECONDS = 2.0, 5.0


def audit(bench: Bench) -> list[Row]:
    """Seconds for one answer of `audit downstream`, everything read and compared with its digest."""
    base = Path(bench.scratch) / f"audit-{secrets.token_hex(4)}"
    _ = bench.spark  # the rows after this one find the session that all share, and not one of audit's own
    with Site.at(base) as site:
        live, many, chain = (number // bench.shrink for number in (LIVE, ARCHIVED, CHAIN))
        asked = _live(site, live)
        rows = [_row(bench, site, "audit-live", f"audit downstream, {live:,} live snapshots", asked, LIVE_SECONDS)]
        first = _archive(site, many, chain)
        told = f"audit downstream, {many:,} archived snapshots, a chain of {chain:,}"
        rows.append(_row(bench, site, "audit-archive", told, first, ARCHIVED_SECONDS))
    return rows


def _row(bench: Bench, site: Site, name: str, told: str, asked: str, limit: float) -> Row:
    began = load()
    site.warden.audit_downstream(asked)  # the session starts, and what is read once is read
    samples = []
    for _ in range(bench.repeat):
        at = time.perf_counter()
        answer = site.warden.audit_downstream(asked)
        samples.append(Sample(time.perf_counter() - at))
        assert answer["total"] > 0
    mine = Figures.of(samples)
    # There is nothing to compare it with: the ratio is the seconds themselves.
    wanted = Figures.of([Sample(limit)])
    note = f"{answer['total']:,} snapshots found"
    return Row(name, told, mine, wanted, mine.value, limit, (began, load()), at_most=True, note=note)


def _live(site: Site, many: int) -> str:
    """Tables with so many snapshots in all, each made from the one before."""
    before = ""
    for number in range(10):
        table = site.iceberg(f"t{number}", 0)
        for _ in range(max(1, many // 10)):
            table.append(ROWS.slice(0, 1), snapshot_properties={"input.snapshot_ids": before} if before else {})
            before = before or str(table.current_snapshot().snapshot_id)  # type: ignore[union-attr]
    return before


def _archive(site: Site, many: int, chain: int) -> str:
    """So many rows, entered as history enters them: a chain through all tables, and inputs here and there."""
    ledger, stores = site.warden._deployment.ledger, site.warden._deployment.stores
    ids = np.arange(1, many + 1, dtype=np.int64) + (1 << 60)
    for start in range(0, many, ROWS_A_FILE):
        part = [_snapshot(ids, place, chain) for place in range(start, min(many, start + ROWS_A_FILE))]
        table = pa.Table.from_pylist(part, schema=HISTORY)
        data = packed(table)
        digest = hashlib.sha256(data).hexdigest()
        uri = f"file://{site.base}/state/history/detail/bench/{digest}.parquet"
        stores.create(uri, data)
        times = (part[0]["committed_ms"], part[-1]["committed_ms"])
        entries = [Entry(Key(r["uuid"], r["snapshot_id"], r["digest"]), month_of(r["committed_ms"])) for r in part]
        ledger.history.add(HistoryFile(uri, digest, len(part), len(data), *times, "bench"), entries)
    return str(int(ids[0]))


def _snapshot(ids: np.ndarray, place: int, chain: int) -> dict[str, object]:
    table = f"archive.db.t{place % TABLES}"
    # The chain first; behind it every tenth snapshot is made from one that lies anywhere before it.
    source = place - 1 if 0 < place < chain else (place * 7919) % place if place and place % 10 == 0 else None
    inputs = [] if source is None else [{"table": "", "snapshot_id": int(ids[source])}]
    said = {"operation": "append", "writer.id": f"ingest-{place % 7}", "trigger.type": "schedule"}
    if inputs:
        said["input.snapshot_ids"] = str(inputs[0]["snapshot_id"])
    return {
        "uuid": f"00000000-0000-0000-0000-{place % TABLES:012d}",
        "identifier": table,
        "format": "iceberg",
        "snapshot_id": int(ids[place]),
        "committed_ms": FIRST_MS + place * APART_MS,
        "operation": "append",
        "writer_id": said["writer.id"],
        "trigger_type": "schedule",
        "inputs": inputs,
        "added_rows": 1000,
        "added_bytes": 100_000,
        "refs": [],
        "summary": list(said.items()),
        "document": "{}",
        "digest": f"{place:064x}",
    }
