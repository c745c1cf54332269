"""The service under load: 200 reads a second, pages and API alike, while its runner plans."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx

from bench.bench import LAKEWARDEN, ROOT, Bench, command
from bench.lakes import local_lake
from bench.measure import Figures, Row, load
from bench.ours import Deployment
from lakewarden.ledger.database import open_ledger
from lakewarden.model.clock import SystemClock
from lakewarden.settings import load_settings

RATE, SECONDS = 200, 60
P99_TARGET = 0.5
PATIENCE_SECONDS = 240
TABLES = 10_000
API = ("fleet", "runs", "plans", "requests", "schedule", "heartbeats", "branches", "freeze")
PAGES = ("/", "/plans", "/runs", "/schedule", "/branches", "/compaction", "/leases")
# How many tables are asked for by name, and how many pages of the list: nobody's next question is the last one's.
NAMED, LEAFED = 80, 40


def service(bench: Bench) -> list[Row]:
    """`lakewarden serve` over ten thousand tables: no error, and 99 of 100 answers within half a second."""
    began = load()
    lake = local_lake(bench.scratch, "fleet100", bench.shrink)
    # The look at the fleet must not replace the tables that are added to it below.
    deployment = Deployment.fresh(lake, bench.scratch, "grace_period_hours = 168\n[service]\nobserve_minutes = 1440\n")
    token = _token(deployment.config)
    bearer = {"Authorization": f"Bearer {token}"}
    with (
        _served(deployment.config) as url,
        httpx.Client(base_url=url, headers=bearer, timeout=PATIENCE_SECONDS) as client,
    ):
        _planned(client)  # Spark is up, and tables, plans and metrics have content
        paths = mixed(grown(deployment.config, TABLES // bench.shrink))
        words = (url, token, str(RATE), str(SECONDS // bench.shrink), *paths)
        asking = (sys.executable, "-m", "bench.service_load", *words)
        loading = subprocess.Popen(asking, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        plans = 0
        while loading.poll() is None:
            _planned(client)
            plans += 1
        told = json.loads(loading.communicate()[0])
    deployment.discard()
    wrong = {status: count for status, count in told["statuses"].items() if status != "200"}
    if wrong:
        raise RuntimeError(f"not every answer was 200: {wrong}")
    figures = Figures(told["p99"], {"p50": told["p50"], "max": told["max"]}, (told["p99"],))
    target = Figures(P99_TARGET, {}, (P99_TARGET,))
    work = (
        f"{RATE} reads a second for {SECONDS // bench.shrink} s over {TABLES // bench.shrink:,} tables, "
        f"{told['calls']:,} in all, while {plans} plans were made"
    )
    return [
        Row("service", work, figures, target, told["p99"], P99_TARGET, (began, load()), "s", True, "99th percentile")
    ]


def _token(config: str) -> str:
    words = ("token", "create", "bench", "--role", "operator", "--config", config, "--output", "json")
    return str(json.loads(command(LAKEWARDEN, *words))["token"])


def grown(config: str, tables: int) -> list[str]:
    """Let the ledger hold so many tables: those that the runner saw, again and again under other names."""
    settings = load_settings(config)
    with open_ledger(settings.state.database_url, SystemClock()) as ledger:
        _until(lambda: ledger.fleet.summary().tables)
        seen = ledger.fleet.page(limit=500).rows
        rows = [
            replace(row, identifier=f"{row.identifier}_{n:03}", tenant=f"tenant_{n % 40:02}")
            for n in range(-(-tables // len(seen)))
            for row in seen
        ][:tables]
        ledger.fleet.replace(rows, ledger.now())
    return [row.identifier for row in rows]


def mixed(tables: list[str]) -> list[str]:
    """What is asked for in turn: every list and figure, tables by name, pages of tables that were filtered and sorted."""
    every = [*(f"/api/v1/{path}" for path in API), *PAGES, "/metrics"]
    named = tables[:: max(1, len(tables) // NAMED)][:NAMED]
    turns: list[str] = []
    for n, table in enumerate(named):
        turns += [every[n % len(every)], f"/api/v1/tables/{table}", every[(n + 7) % len(every)], f"/tables/{table}"]
        page = n % LEAFED
        turns += [every[(n + 11) % len(every)], f"/api/v1/tables?offset={page * 50}&sort=bytes"]
        turns += [f"/tables?offset={page * 50}&tenant=tenant_{page:02}", f"/tables?search=_{page:03}"]
    return turns


@contextmanager
def _served(config: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([LAKEWARDEN, "serve", "--config", config, "--port", str(port)], cwd=ROOT)
    url = f"http://127.0.0.1:{port}"
    try:
        _until(lambda: _ready(url))
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).is_success
    except httpx.HTTPError:
        return False


def _planned(client: httpx.Client) -> None:
    """Ask for a plan, and wait for it."""
    made = client.post("/api/v1/plans", json={"job_type": "orphan-cleanup"})
    made.raise_for_status()
    place = made.json()["url"]

    def over() -> bool:
        status = client.get(place).json()["status"]
        if status in ("failed", "refused"):
            raise RuntimeError(f"the plan is {status}: {client.get(place).text}")
        return bool(status == "done")

    _until(over)


def _until(true: object) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError("the service took too long")
        time.sleep(0.2)
