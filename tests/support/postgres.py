"""A throw-away PostgreSQL server on a free local port."""

from __future__ import annotations

import glob
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.support.missing import missing

USER = "lake"
LISTEN = "127.0.0.1"

_numbers = itertools.count()


class PostgresMissingError(Exception):
    """No PostgreSQL server is installed here."""


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server. Without one the test is skipped; on CI that is a failure."""
    try:
        url, stop = start_postgres(tmp_path_factory.mktemp("pg"))
    except PostgresMissingError as error:
        missing(error)
    yield url
    stop()


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """An empty PostgreSQL database of this test's own."""
    name = f"ledger_{os.getpid()}_{next(_numbers)}"
    engine = create_engine(postgres_server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return postgres_server.removesuffix("/postgres") + f"/{name}"


def start_postgres(tmpdir: Path) -> tuple[str, Callable[[], None]]:
    """Start a server whose data lies under `tmpdir`; give its address and how to stop it.

    As root its data lies in a directory of its own instead: the server refuses to run as root, and pytest's directories
    are closed to every other user.
    """
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    as_owner: list[str] = []
    if os.geteuid() == 0:
        as_owner = ["runuser", "-u", "postgres", "--"]
        home = Path(tempfile.mkdtemp(prefix="postgres-"))
        shutil.chown(home, "postgres")
    else:
        home = tmpdir / "postgres"
        home.mkdir()
    port = _free_port()
    data, log = home / "data", home / "log"
    settings = f"-p {port} -c listen_addresses={LISTEN} -c unix_socket_directories={home} -c fsync=off"
    _run([*as_owner, initdb, "-D", str(data), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"])
    _run([*as_owner, pg_ctl, "-D", str(data), "-w", "-l", str(log), "start", "-o", settings])

    def stop() -> None:
        _run([*as_owner, pg_ctl, "-D", str(data), "-m", "immediate", "stop"])
        shutil.rmtree(home, ignore_errors=True)

    return f"postgresql://{USER}@{LISTEN}:{port}/postgres", stop


def _program(name: str) -> str:
    found = shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    if found is None:
        raise PostgresMissingError(f"PostgreSQL is not installed: there is no {name} (apt-get install postgresql)")
    return found


def _run(command: list[str]) -> None:
    # No pipes: the server inherits them and would keep the reader waiting for ever.
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/")
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LISTEN, 0))
        return int(probe.getsockname()[1])
