"""The service under load: 200 reads a second, pages and API alike, while its runner plans."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from bench.bench import LAKEWARDEN, ROOT, Bench, command
from bench.lakes import local_lake
from bench.measure import Figures, Row, load
from bench.ours import Deployment

RATE, SECONDS = 200, 60
P99_TARGET = 0.5
PATIENCE_SECONDS = 240
API = (
    "tables?limit=50",
    "fleet",
    "runs",
    "plans",
    "requests",
    "tables?search=t_01&sort=bytes",
    "schedule",
    "heartbeats",
)
PAGES = ("/", "/tables", "/plans", "/runs")


def service(bench: Bench) -> list[Row]:
    """`lakewarden serve` over a hundred tables: no error, and 99 of 100 answers within half a second."""
    began = load()
    lake = local_lake(bench.scratch, "fleet100", bench.shrink)
    deployment = Deployment.fresh(lake, bench.scratch, "grace_period_hours = 168\n")
    token = json.loads(
        command(
            LAKEWARDEN,
            "token",
            "create",
            "bench",
            "--role",
            "operator",
            "--config",
            deployment.config,
            "--output",
            "json",
        )
    )["token"]
    with _served(deployment.config) as url:
        paths = [*(f"/api/v1/{path}" for path in API), *PAGES, "/metrics"]
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
            _planned(client)  # Spark is up, and tables, plans and metrics have content
            asking = (
                sys.executable,
                "-m",
                "bench.service_load",
                url,
                token,
                str(RATE),
                str(SECONDS // bench.shrink),
                *paths,
            )
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
    work = f"{RATE} reads a second for {SECONDS // bench.shrink} s, {told['calls']:,} in all, while {plans} plans were made"
    return [
        Row("service", work, figures, target, told["p99"], P99_TARGET, (began, load()), "s", True, "99th percentile")
    ]


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
