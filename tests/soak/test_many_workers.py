"""The long versions: five workers beside writers, fifty kills, twenty pauses."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.jobs.compaction.workers.busy_lake import BusyLake
from tests.jobs.compaction.workers.spark_writer import add_spark_writer
from tests.jobs.compaction.workers.test_workers import make_lake, told
from tests.support.storage import Seaweed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(7200),
    pytest.mark.usefixtures("java"),
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),  # PyIceberg, of the other writer's table
]


def _figure(name: str, full: int) -> int:
    """A figure of these tests, such as `SOAK_KILLS=3`: the environment may make a shorter run of it."""
    return int(os.environ.get(f"SOAK_{name}", full))


# What was written for nothing is a share that a minute tells little of: a group or two make a tenth.
WORKERS, SECONDS = _figure("WORKERS", 5), _figure("SECONDS", 600)
# Fifty kills and twenty pauses, on several lakes one after the other: each is checked by itself.
LAKES, KILLS, PAUSES = _figure("LAKES", 5), _figure("KILLS", 10), _figure("PAUSES", 4)


@pytest.fixture(params=["postgresql", "rest"])
def lake(
    request: pytest.FixtureRequest, seaweed: Seaweed, postgres_url: str, spark: SparkSession, tmp_path: Path
) -> Iterator[BusyLake]:
    serve = request.getfixturevalue("serve") if request.param == "rest" else None
    with make_lake(seaweed, postgres_url, serve, tmp_path) as found:
        add_spark_writer(found, spark, seaweed)
        yield found


def test_five_workers_waste_little(lake: BusyLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.start(WORKERS)
    lake.write(float(SECONDS), 0.5)
    lake.workers[0].at_work()
    lake.stop()
    lake.check_rows()
    landed = lake.check_commits()
    wasted, written = told(lake, landed, capsys)
    assert len(landed) > 1
    assert wasted < 0.05 * written


@pytest.mark.parametrize("number", range(LAKES))
def test_kills_and_pauses(lake: BusyLake, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(number)
    lake.start(WORKERS)
    for worker in lake.workers:
        worker.at_work(300)
    acts = ["kill"] * KILLS + ["pause"] * PAUSES
    draw.shuffle(acts)
    over = threading.Event()
    writing = threading.Thread(target=lake.write_until, args=(over, 0.5))
    writing.start()
    try:
        for act in acts:
            worker = draw.choice(lake.workers)
            time.sleep(draw.uniform(0, 4))
            if act == "kill":
                worker.kill()
                worker.start()
                worker.at_work(300)
            else:
                worker.pause()
    finally:
        over.set()
        writing.join()
    lake.stop()
    lake.check_rows()
    told(lake, lake.check_commits(), capsys)
