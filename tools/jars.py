"""Fetches the jars of the tests' Spark session and REST catalog, so that the first test does not wait for a download."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.rest import rest_jars
from tests.support.spark import start_session


def main() -> None:
    with TemporaryDirectory() as scratch:
        start_session(Path(scratch)).stop()
    rest_jars()


if __name__ == "__main__":
    main()
