"""Fetches the jars the tests' Spark session loads, so that the first test does not wait for a download."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fixtures_spark import start_session


def main() -> None:
    with TemporaryDirectory() as scratch:
        start_session(Path(scratch)).stop()


if __name__ == "__main__":
    main()
