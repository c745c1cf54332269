"""Markers follow from fixtures, and a test cannot start a part that its fixtures do not show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = """
import pytest

pytest_plugins = ["tests.support.needs"]

@pytest.fixture(scope="session")
def spark(): ...

@pytest.fixture(scope="session")
def seaweed(): ...

@pytest.fixture
def bucket(seaweed): ...

@pytest.fixture(params=["memory", "s3"])
def place(request):
    if request.param == "s3":
        request.getfixturevalue("seaweed")

def pytest_configure(config):
    for name in ("alone", "soak", "spark", "s3"):
        config.addinivalue_line("markers", name)
"""
TESTS = """
import pytest

def test_alone(): ...
def test_plan(spark): ...
def test_store(bucket): ...
def test_kinds(place): ...
@pytest.mark.soak
def test_long(): ...
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    pytester.makeconftest(PARTS)
    return pytester


def test_a_marker_is_what_the_fixtures_say(suite: pytest.Pytester) -> None:
    suite.makepyfile(TESTS)
    for marker, expected in {
        "alone": {"test_alone", "test_kinds[memory]"},
        "spark": {"test_plan"},
        "s3": {"test_store", "test_kinds[s3]"},
    }.items():
        result = suite.runpytest_subprocess("-q", "--collect-only", "-m", marker)
        assert {line.partition("::")[2] for line in result.outlines if "::" in line} == expected


def test_a_server_that_a_test_does_not_show_fails_it(suite: pytest.Pytester) -> None:
    suite.makepyfile('def test_hidden(request):\n    request.getfixturevalue("seaweed")\n')
    result = suite.runpytest_subprocess("-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*asks for seaweed in its course*"])


def test_spark_that_a_test_does_not_show_fails_it(suite: pytest.Pytester) -> None:
    """Both in the test's own process and in one that it starts."""
    suite.makepyfile("""
        import subprocess, sys

        START = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()"

        def test_own():
            exec(START)

        def test_child():
            subprocess.run([sys.executable, "-c", START], check=True)
    """)
    result = suite.runpytest_subprocess("-q")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*this-test-asked-for-no-spark*"])
