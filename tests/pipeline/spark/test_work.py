"""Spark jobs of one piece of work are ended by its stop, and nobody else's in the same process are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import lakewarden
from lakewarden.model import stop as stops
from lakewarden.model.stop import Stopped, StopToken
from lakewarden.pipeline.spark.work import SparkWork
from tests.support.worlds import World, make_world

SECONDS = 60
TAGS = "spark.job.tags"


@pytest.fixture(scope="module")
def world(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("work"))


def long_job(work: SparkWork, spark: Any) -> int:
    def slowly(rows: Any) -> Any:
        time.sleep(SECONDS)
        yield from rows

    with work.joined():
        session: Any = work.warming(lambda: done(spark)).result()
        return int(session.sparkContext.parallelize(range(2), 2).mapPartitions(slowly).count())


def done(session: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(session)
    return future


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS / 2
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_stop_ends_the_jobs_of_its_own_work_only(spark: Any) -> None:
    mine, other = SparkWork(), SparkWork()
    running = spark.sparkContext.statusTracker()
    with ThreadPoolExecutor(2) as pool:
        try:
            first, second = pool.submit(long_job, mine, spark), pool.submit(long_job, other, spark)
            until(lambda: len(running.getActiveJobsIds()) == 2)
            mine.cancel()
            assert "cancelled" in str(first.exception(timeout=SECONDS / 2))
            assert len(running.getActiveJobsIds()) == 1
            assert not second.done()
        finally:
            other.cancel()
        assert second.exception(timeout=SECONDS / 2) is not None


def test_a_thread_is_left_without_a_tag(spark: Any) -> None:
    """A notebook goes on with its session in the same thread."""
    work, context = SparkWork(), spark.sparkContext
    before = context.getLocalProperty(TAGS)
    with work.joined():
        work.warming(lambda: done(spark)).result()
        assert context.getLocalProperty(TAGS) != before
    assert (context.getLocalProperty(TAGS) or None) == before


def test_cancelling_what_never_had_a_session_does_nothing() -> None:
    SparkWork().cancel()


@pytest.mark.parametrize("handed_in", [False, True])
def test_a_plan_that_was_stopped_and_lingers_does_not_end_the_next_one(
    world: World, spark: Any, handed_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped work may take its time to leave what it is at. Whoever plans meanwhile in this process is not concerned."""
    monkeypatch.setattr(stops, "SECONDS_UNTIL_AGAIN", 0.005)
    stop, at_it, go_on = StopToken(), threading.Event(), threading.Event()

    def linger(*_: object) -> None:
        if threading.current_thread().name.startswith("lingers"):
            at_it.set()
            go_on.wait(SECONDS)

    with (
        lakewarden.open(str(world.config), **({"spark": spark} if handed_in else {})) as warden,
        ThreadPoolExecutor(1, thread_name_prefix="lingers") as pool,
    ):
        lingering = pool.submit(warden.stopped_by(stop).plan, "orphans", progress=linger)
        try:
            assert at_it.wait(SECONDS)
            stop.request(Stopped("ada asked"))
            assert warden.plan("orphans").plan.totals()["changes"]["files"]
        finally:
            go_on.set()
        assert isinstance(lingering.exception(timeout=SECONDS), Stopped)
