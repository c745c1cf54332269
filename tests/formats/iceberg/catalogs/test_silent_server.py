"""A REST server that takes the connection and never answers: the command ends, says so, and has touched nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

import lakewarden
from lakewarden.formats.iceberg.catalog.connection import connect
from lakewarden.formats.iceberg.catalog.rest_timeouts import PatientRestCatalog, _timeouts
from lakewarden.model.errors import CatalogUnavailableError
from tests.support.worlds import World, hand_plan, make_world, write_config

CONFIG = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n{"defaults":{},"overrides":{}}'
)
QUICK = {"rest.client.socket-timeout-ms": "200", "rest.client.connection-timeout-ms": "200"}
SOON = 20.0


class Silent:
    """A server on this machine: it answers so many requests with an empty configuration, and then none."""

    def __init__(self, answers: int = 0) -> None:
        self._door = socket.create_server(("127.0.0.1", 0))
        self.answers = self._left = answers
        self._guests: list[socket.socket] = []
        self.properties = {"type": "rest", "uri": f"http://127.0.0.1:{self._door.getsockname()[1]}", **QUICK}
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                guest, _ = self._door.accept()
            except OSError:
                return
            self._guests.append(guest)
            if self._left:
                self._left -= 1
                guest.recv(65536)
                guest.sendall(CONFIG)

    @property
    def guests(self) -> int:
        return len(self._guests)

    def close(self) -> None:
        self._door.close()
        for guest in self._guests:
            guest.close()


@pytest.fixture(params=[0, 1], ids=["from the start", "after its configuration"])
def silent(request: pytest.FixtureRequest) -> Iterator[Silent]:
    with closing(Silent(request.param)) as server:
        yield server


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = make_world(tmp_path_factory.mktemp("silent"), ("sales.orders",))
    yield world
    world.close()


def test_a_plan_ends_and_is_not_made(silent: Silent, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, "lake", silent.properties)
    began = time.monotonic()
    code = World(tmp_path, None, config).exit_code("plan", "orphan-cleanup")  # type: ignore[arg-type]
    assert time.monotonic() - began < SOON
    said = capsys.readouterr()
    assert (code, "LW-CATALOG-001" in said.out + said.err) == (1, True)
    assert silent.guests >= 3, "asked again before it was given up"


def test_an_apply_ends_and_goes_on_when_the_server_is_back(silent: Silent, world: World) -> None:
    plan, before = hand_plan(world), world.on_disk()
    world.close()
    config = write_config(world.base, world.lake.name, silent.properties, name="silent.toml")
    began = time.monotonic()
    with closing(lakewarden.open(str(config))) as warden, pytest.raises(CatalogUnavailableError) as stopped:
        warden.apply(plan)
    assert time.monotonic() - began < SOON
    assert stopped.value.code == "LW-CATALOG-001"
    assert world.on_disk() == before, "nothing was touched"
    if silent.answers:
        assert world.apply(plan).deleted.files == len(world.planted())


def test_a_minute_unless_the_properties_say_otherwise() -> None:
    assert _timeouts("lake", {}) == (60.0, 60.0)
    assert _timeouts("lake", {"rest.client.socket-timeout-ms": "1500"}) == (60.0, 1.5)
    with closing(Silent(1)) as server:
        found = connect("lake", {"uri": server.properties["uri"]})
    assert isinstance(found, PatientRestCatalog), "told by its address, as PyIceberg does"


@pytest.mark.parametrize("key", QUICK)
@pytest.mark.parametrize("value", ["0", "abc", "-1", "1e3", "1.5", "", "99999999999"])
def test_a_timeout_that_is_none_is_the_configurations_fault(
    key: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Silent(1)) as server:
        config = write_config(tmp_path, "lake", {**server.properties, key: value})
        code = World(tmp_path, None, config).exit_code("plan", "snapshot-expiry")  # type: ignore[arg-type]
        assert not server.guests
    said = capsys.readouterr()
    told = said.out + said.err
    assert (code, "LW-CONF-001" in told, f"catalogs.lake.properties: {key}" in told) == (64, True, True)


def test_pyiceberg_s_own_configuration_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Silent(1)) as server:
        monkeypatch.setenv("PYICEBERG_CATALOG__HOUSE__URI", server.properties["uri"])
        monkeypatch.setenv("PYICEBERG_CATALOG__HOUSE__TYPE", "REST")
        catalog = connect("house", {"warehouse": "w"})
    assert isinstance(catalog, PatientRestCatalog)
    assert catalog.properties["warehouse"] == "w"
