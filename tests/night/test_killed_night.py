"""A real `lakewarden run all` that is killed, and the same command again: one Spark session, and the end of a good night."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.night.lake import GOOD, REFUSED, NightLake, night_lake
from tests.support.worlds import environment

pytestmark = pytest.mark.usefixtures("java")

# Writes down the application of every session that a job is given.
SCRIPT = """
import os, sys
from lakewarden.pipeline.spark import session
start = session.spark_session
def noted(*given, **more):
    found = start(*given, **more)
    with open(os.environ["NOTED"], "a") as file:
        file.write(found.sparkContext.applicationId + "\\n")
    return found
session.spark_session = noted
from lakewarden.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[NightLake]:
    with night_lake(tmp_path) as site:
        site.policies = {}
        site.sections["orphan_cleanup"]["rate_limit_ms"] = 200
        site.build()
        yield site


def start(lake: NightLake, noted: Path) -> subprocess.Popen[str]:
    words = ["run", "all", "--config", lake.config(), "--output", "json"]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment(), "NOTED": str(noted)},
    )  # fmt: skip


def test_killed_and_repeated(lake: NightLake, tmp_path: Path) -> None:
    first = start(lake, tmp_path / "first")
    while first.poll() is None and all(path.exists() for path in lake.planted):
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    _, said = first.communicate(timeout=60)
    assert first.returncode == -signal.SIGKILL, said
    gone = sum(not path.exists() for path in lake.planted)
    assert 0 < gone < len(lake.planted)

    second = start(lake, tmp_path / "second")
    out, said = second.communicate(timeout=240)

    assert second.returncode == 0, (out, said)
    night: dict[str, Any] = json.loads(out)
    jobs = {job["job"]: job for job in night["jobs"]}
    assert not any(jobs["snapshot-expiry"]["changed"].values()), "the killed night did that"
    assert len(jobs["orphan-cleanup"]["resumed"]) == 1
    assert jobs["orphan-cleanup"]["changed"] == {"files": len(lake.planted)}, "what the killed process took counts too"
    assert {table["table"] for table in jobs["orphan-cleanup"]["refused"]} == {f"lake.{REFUSED}"}
    for noted in ("first", "second"):
        assert len(set((tmp_path / noted).read_text().split())) == 1, "one session for all jobs"
    assert not any(path.exists() for path in lake.planted)
    assert lake.snapshots(GOOD) == 1
    assert lake.rows_now() == lake.rows
    assert not lake.warden.doctor()["open_intents"]
    assert lake.warden.audit_verify()["ok"]
