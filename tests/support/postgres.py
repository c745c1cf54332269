"""A throw-away PostgreSQL server on a free local port."""

from __future__ import annotations

import glob
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.support.missing import missing
from tests.support.processes import ends_with_us

USER = "lake"
LISTEN = "127.0.0.1"
SECONDS_TO_START = 60

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
    initdb, postgres = _program("initdb"), _program("postgres")
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner = {"user": "postgres", "group": "postgres", "extra_groups": []}
        home = Path(tempfile.mkdtemp(prefix="postgres-"))
        shutil.chown(home, "postgres", "postgres")
    else:
        home = tmpdir / "postgres"
        home.mkdir()
    port = _free_port()
    data, log = home / "data", home / "log"
    made = [initdb, "-D", str(data), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
    subprocess.run(made, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/", **owner)
    said = {"port": port, "listen_addresses": LISTEN, "unix_socket_directories": home, "fsync": "off"}
    with log.open("wb") as out:
        server = subprocess.Popen(
            [postgres, "-D", str(data), *(word for name, value in said.items() for word in ("-c", f"{name}={value}"))],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            preexec_fn=ends_with_us(signal.SIGQUIT),  # an immediate shutdown, which takes its own processes along
            **owner,
        )

    def stop() -> None:
        server.send_signal(signal.SIGQUIT)
        server.wait(30)
        shutil.rmtree(home, ignore_errors=True)

    url = f"postgresql://{USER}@{LISTEN}:{port}/postgres"
    try:
        _wait_ready(url, server, log)
    except BaseException:
        stop()
        raise
    return url, stop


def _wait_ready(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            engine.connect().close()
            break
        except OperationalError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text(encoding='utf-8')}") from error
            time.sleep(0.05)
    engine.dispose()


def _program(name: str) -> str:
    found = shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    if found is None:
        raise PostgresMissingError(f"PostgreSQL is not installed: there is no {name} (apt-get install postgresql)")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LISTEN, 0))
        return int(probe.getsockname()[1])
