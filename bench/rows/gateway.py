"""The gateway: what it adds to a request of one client, and what fifty at once get."""

from __future__ import annotations

import statistics
import time
import uuid
from pathlib import Path

from bench.bench import Bench
from bench.measure import Figures, Row, Sample, load
from tests.gateway.load import IN_MEMORY, Client, at_once, commits
from tests.support.gateways import gateway
from tests.support.rest import RestJvm

REQUESTS = 400
CLIENTS = 50
OVERHEAD_MS = 5.0


def gateway_rows(bench: Bench) -> list[Row]:
    """Through it and past it, to the same catalog (Apache's, in this machine's memory), in milliseconds."""
    jvm = RestJvm()
    try:
        server = jvm.serve({**IN_MEMORY, "warehouse": f"file://{bench.scratch}/gateway-{uuid.uuid4().hex}"})
        with gateway(Path(bench.scratch) / "gateway", server.uri) as running:
            client = Client(running.uri)
            client.ask("POST", "/v1/namespaces", {"namespace": ["load"]})
            client.close()
            return [*_one_client(bench, running.uri, server.uri), _many(bench, running.uri, server.uri)]
    finally:
        jvm.close()


def _one_client(bench: Bench, through: str, past: str) -> list[Row]:
    count = REQUESTS // bench.shrink
    rows = []
    for name, work, ask in (("gateway-commit", "a commit", _commits), ("gateway-read", "a read", _reads)):
        began = load()
        ask(past, count)  # the catalog's JVM is slow at first
        ask(through, count)
        ours, other = ask(through, count), ask(past, count)
        difference = (statistics.median(ours) - statistics.median(other)) * 1000
        note = f"ratio: ms that the gateway adds to the median of {count}; p99 {_p99(ours) * 1000:.1f} / {_p99(other) * 1000:.1f} ms"
        said = f"{work} of one client through the gateway, p50, against the catalog itself"
        rows.append(_row(name, said, ours, other, difference, OVERHEAD_MS, began, note))
    return rows


def _many(bench: Bench, through: str, past: str) -> Row:
    began = load()
    count = max(4, 40 // bench.shrink)
    ours, failed = at_once(CLIENTS, lambda _: _commits(through, count))
    other, also = at_once(CLIENTS, lambda _: _commits(past, count))
    note = f"ratio: requests that failed ({len(also)} without the gateway); p99 {_p99(ours):.2f} / {_p99(other):.2f} s"
    return _row(
        "gateway-50", f"commits of {CLIENTS} clients at once, p50", ours, other, float(len(failed)), 0.0, began, note
    )


def _row(
    name: str, work: str, ours: list[float], other: list[float], ratio: float, target: float, began: float, note: str
) -> Row:
    sides = (Figures.of([Sample(one) for one in side], 1000) for side in (ours, other))
    mine, peer = (Figures(side.value, {}, (side.value,)) for side in sides)
    return Row(name, work, mine, peer, ratio, target, (began, load()), "ms", True, note)


def _commits(uri: str, count: int) -> list[float]:
    return commits(uri, f"t{uuid.uuid4().hex}", count)


def _reads(uri: str, count: int) -> list[float]:
    client = Client(uri)
    took = []
    for _ in range(count):
        began = time.perf_counter()
        client.ask("GET", "/v1/namespaces")
        took.append(time.perf_counter() - began)
    client.close()
    return took


def _p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99) - 1]
