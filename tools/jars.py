"""Fetches the jars of the tests' Spark session and catalog servers, so that the first test does not wait for a download."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support import nessie
from tests.support.rest import JarsMissingError, rest_jars, settled_jars
from tests.support.spark import start_session


def main() -> None:
    with TemporaryDirectory() as scratch:
        start_session(Path(scratch)).stop()
    rest_jars()
    with suppress(JarsMissingError):  # its one test says so by name
        settled_jars(nessie.IVY_FILE)


if __name__ == "__main__":
    main()
