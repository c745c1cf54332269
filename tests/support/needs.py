"""What each test needs beside Python, read from the fixtures it asks for: its markers, its group, and a guard that keeps both true.

Nobody writes these markers by hand. A test that starts Spark through Lakewarden itself (`warden.plan(...)`, a `lakewarden plan`
of its own process) asks for the fixture `spark` as well, or the guard fails it: otherwise `make check`, which promises to start
no JVM and no server, would start one.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

# The fixture that starts a part, and the marker of the tests that need the part.
MARKERS = {
    "spark": "spark",
    "seaweed": "s3",
    "postgres_server": "postgres",
    "rest_jvm": "rest",
    "nessie_uri": "nessie",
    "nessie_server": "nessie",
    "java": "java",
    "chromium": "chromium",
}
# A fixture or test that runs on several kinds of part names the kind by its parameter, and asks for the part only then.
KINDS = {
    "s3": "seaweed",
    "postgresql": "postgres_server",
    "rest": "rest_jvm",
    "rest version 1": "rest_jvm",
}
NO_SPARK = "/this-test-asked-for-no-spark"


def needs_of(item: pytest.Item) -> set[str]:
    """The parts that a test's fixtures start, by the names of those fixtures."""
    found = MARKERS.keys() & set(getattr(item, "fixturenames", ()))
    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec is not None else ():
        if isinstance(value, str) and value in KINDS:
            found.add(KINDS[value])
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        needs = needs_of(item)
        for part in sorted(needs):
            item.add_marker(MARKERS[part])
        if not needs and item.get_closest_marker("soak") is None:
            item.add_marker("alone")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """A part that a test asks for without showing it would be started by `make check` too."""
    part, item = fixturedef.argname, request._pyfuncitem
    if part in MARKERS and part not in needs_of(item):
        pytest.fail(
            f"{item.nodeid} asks for {part} in its course: name the kind in a parameter, or ask for the fixture", False
        )


@pytest.fixture(autouse=True)
def _no_spark_unasked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test without the fixture `spark` can start no session, in this process or in one of its own."""
    if not {"spark", "java"} & needs_of(request.node):
        monkeypatch.setenv("SPARK_HOME", NO_SPARK)
        if "pyspark.sql" in sys.modules:
            from pyspark.sql import SparkSession

            monkeypatch.setattr(SparkSession.Builder, "getOrCreate", _refuse)


def _refuse(*_: object) -> None:
    raise RuntimeError("this test starts Spark: ask for the fixture `spark`")
