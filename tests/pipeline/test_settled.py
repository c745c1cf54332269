"""A worker of Spark's own daemon is settled by its first task; the process of a driver never is."""

from __future__ import annotations

import gc
import subprocess
import sys

import pyarrow as pa

from lakewarden.pipeline.settled import seldom_collecting, settling

SCRIPT = """
import gc
from lakewarden.pipeline.settled import settling
seen = []
for _ in range(2):
    list(settling(iter)([1, 2]))
    seen.append(gc.get_freeze_count())
print(seen[0] > 1000, seen[0] == seen[1])
"""


def test_the_first_task_settles_its_worker_and_the_next_finds_it_settled() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_who_only_makes_the_step_is_left_alone() -> None:
    before = gc.get_freeze_count()
    batch = pa.record_batch({"a": [1]})
    settling(lambda batches: batches)([batch])
    assert gc.get_freeze_count() == before


def test_garbage_is_looked_for_as_often_as_before_once_the_last_is_done() -> None:
    before = gc.get_threshold()
    first, second = seldom_collecting(), seldom_collecting()
    first.__enter__()
    assert gc.get_threshold()[0] > before[0]
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] > before[0]
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_a_process_without_a_collector_stays_so() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with seldom_collecting():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
