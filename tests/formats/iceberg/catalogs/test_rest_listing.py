"""What a REST server lists is believed only as far as its answers fit together; a table that was there is asked for by name."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakewarden.formats.iceberg import open_format
from lakewarden.formats.iceberg.catalog import rest_pages, rest_timeouts
from lakewarden.formats.iceberg.catalog.connection import connect
from lakewarden.model.errors import CatalogUnavailableError, UnbelievableListingError
from lakewarden.model.format import Format
from lakewarden.storage.stores import Stores
from tests.formats.iceberg.catalogs.conftest import RestWorld
from tests.formats.iceberg.catalogs.fronts import front
from tests.support.fault_proxy import FAULTS, fault_proxy, late, stale
from tests.support.lakes import write_table

NOW = datetime.now(UTC)
BOTH = ["lake.sales.eu.orders", "lake.sales.orders"]
QUICK = {"rest.client.socket-timeout-ms": "300", "rest.client.connection-timeout-ms": "300"}

Answer = Callable[[str, str, Mapping[str, list[str]]], tuple[int, Any] | None]


def opened(uri: str, **properties: str) -> Format:
    return open_format("lake", {"type": "rest", "uri": uri, **properties}, Stores(), lambda *_: None)


def names(found: Format) -> list[str]:
    return [pointer.identifier for pointer in found.pointers()]


class Meddler:
    """Takes something out of the listings, as often as a test says."""

    def __init__(self) -> None:
        self.times = 0
        self.field = self.inside = ""
        self.drops: Callable[[Any], bool] = lambda _: True
        self.act: Callable[[str], None] | None = None

    def drop(self, inside: str, field: str, times: int, drops: Callable[[Any], bool] = lambda _: True) -> None:
        self.inside, self.field, self.times, self.drops = inside, field, times, drops

    def __call__(self, path: str, document: dict[str, Any]) -> None:
        if self.act is not None and path.endswith(("/archive/tables", "/sales/tables")):
            act, self.act = self.act, None
            act(path.split("/")[-2])
        if self.times and path.endswith(self.inside) and self.field in document:
            left = [entry for entry in document[self.field] if not self.drops(entry)]
            self.times -= len(left) < len(document[self.field])
            document[self.field] = left


@pytest.fixture
def meddler() -> Meddler:
    return Meddler()


@pytest.fixture
def found(rest_world: RestWorld, meddler: Meddler) -> Iterator[Format]:
    with front(rest_world.lake.properties["uri"], meddler) as uri:
        yield opened(uri)


class TestMissing:
    """A page, a namespace or everything is left out once: nothing of the catalog is missing from the pointers."""

    @pytest.mark.parametrize(
        ("inside", "field"),
        [("/sales/tables", "identifiers"), ("/namespaces", "namespaces")],
        ids=["a table", "every namespace"],
    )
    def test_in_the_first_listing_of_a_process(self, found: Format, meddler: Meddler, inside: str, field: str) -> None:
        meddler.drop(inside, field, 1)
        assert names(found) == BOTH

    @pytest.mark.parametrize("times", [1, 2, 50])
    def test_in_a_later_one_for_good(self, found: Format, meddler: Meddler, times: int) -> None:
        """It was there, so it is asked for by its name."""
        assert names(found) == BOTH
        meddler.drop("/sales/tables", "identifiers", times)
        assert names(found) == BOTH
        meddler.drop("/namespaces", "namespaces", times)
        assert names(found) == BOTH

    def test_a_nested_namespace(self, found: Format, meddler: Meddler) -> None:
        meddler.drop("/namespaces", "namespaces", 1, lambda entry: len(entry) > 1)
        assert names(found) == BOTH

    @pytest.mark.parametrize("known", [True, False], ids=["later", "in the first listing"])
    def test_a_rename_into_a_namespace_that_was_listed_already(
        self, rest_world: RestWorld, found: Format, meddler: Meddler, known: bool
    ) -> None:
        catalog = rest_world.catalog()
        catalog.create_namespace("archive")
        uuids = {}
        for space in ("archive", "sales"):
            uuids[space] = str(write_table(catalog, f"{space}.moving").metadata.table_uuid)
        if known:
            assert len(names(found)) == 4
        moved: list[str] = []

        def move(listed: str) -> None:
            """From the namespace that is still to be listed into the one whose listing is on its way."""
            moved.append("archive" if listed == "sales" else "sales")
            catalog.rename_table(f"{moved[0]}.moving", f"{listed}.moved")

        meddler.act = move
        states = [found.load(pointer, NOW) for pointer in found.pointers()]
        assert uuids[moved[0]] in {state.uuid for state in states}

    def test_a_dropped_table_is_gone(self, rest_world: RestWorld, found: Format) -> None:
        assert names(found) == BOTH
        rest_world.catalog().drop_table("sales.orders")
        assert names(found) == BOTH[:1]
        assert names(found) == BOTH[:1]


CALLS = {
    "namespaces": lambda request: request.path.endswith("/namespaces"),
    "tables": lambda request: request.path.endswith("/sales/tables"),
    "load": lambda request: request.path.endswith("/sales/tables/orders"),
    "configuration": lambda request: request.path.endswith("/config"),
}


class TestFaults:
    """Every call that finds the pointers, and everything that can happen to its answer: all tables, or an error."""

    @pytest.mark.parametrize("call", CALLS)
    def test_all_or_an_error(self, rest_world: RestWorld, call: str) -> None:
        with fault_proxy(rest_world.lake.properties["uri"]) as proxy:
            for name, fault in {**FAULTS, "late": late(0.5), "stale": stale()}.items():
                proxy.clear()
                rule = proxy.on(CALLS[call], fault, times=2)
                found = opened(proxy.endpoint, **{"rest.client.socket-timeout-ms": "300"})
                for _ in range(4):
                    self.ask(found)
                assert rule.hits, name
                proxy.clear()
                assert names(found) == BOTH, name
                # The tables are known by now, and the fault stays.
                proxy.on(CALLS[call], fault, times=None)
                self.ask(found)

    def ask(self, found: Format) -> None:
        with suppress(CatalogUnavailableError):
            assert names(found) == BOTH


class TestForeign:
    """An answer to another question."""

    def test_one_tables_answer_for_another(self, rest_world: RestWorld) -> None:
        taken: list[dict[str, Any]] = []

        def swap(path: str, document: dict[str, Any]) -> None:
            if path.endswith("/tables/orders"):
                if taken and len(taken) < 2:
                    document.update(taken[0])
                taken.append(json.loads(json.dumps(document)))

        with front(rest_world.lake.properties["uri"], swap) as uri:
            locations = {p.identifier: p.metadata_location for p in opened(uri).pointers()}
        assert locations == {f"lake.{n}": rest_world.table(n).metadata_location for n in rest_world.lake.tables}

    def test_another_namespaces_listing(self, rest_world: RestWorld) -> None:
        def swap(path: str, document: dict[str, Any]) -> None:
            if path.endswith("/sales/tables"):
                document["identifiers"] = [{"namespace": ["web"], "name": "clicks"}]

        with (
            front(rest_world.lake.properties["uri"], swap) as uri,
            pytest.raises(UnbelievableListingError, match="web"),
        ):
            opened(uri).pointers()

    @pytest.mark.parametrize("inside", ["/sales/tables", "/namespaces"])
    def test_an_answer_that_is_no_listing(self, rest_world: RestWorld, inside: str) -> None:
        def empty(path: str, document: dict[str, Any]) -> None:
            if path.endswith(inside):
                document.clear()

        with front(rest_world.lake.properties["uri"], empty) as uri, pytest.raises(UnbelievableListingError):
            opened(uri).pointers()


def test_names_with_dots_are_two_tables(rest_world: RestWorld) -> None:
    catalog = rest_world.catalog()
    catalog.create_namespace(("a",))
    catalog.create_namespace(("a", "b"))
    one, other = (write_table(catalog, name) for name in (("a", "b.c"), ("a", "b", "c")))  # type: ignore[arg-type]
    found = opened(rest_world.lake.properties["uri"])
    states = {p.identifier: found.load(p, NOW) for p in found.pointers()}
    assert states["lake.a.`b.c`"].uuid == str(one.metadata.table_uuid)
    assert states["lake.a.b.c"].uuid == str(other.metadata.table_uuid)
    versions = found.expirer._versions()  # type: ignore[union-attr]
    assert versions.current("a.`b.c`").location == one.metadata_location
    assert versions.current("a.b.c").location == other.metadata_location


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """A server that answers what a test says; None stays silent."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
            said = answer(self.command, path, query)
            if said is None:
                time.sleep(5)
                return
            body = json.dumps(said[1]).encode()
            self.send_response(said[0])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_HEAD = _answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read their own output."""

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.daemon_threads = True
    threading.Thread(target=found.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{found.server_port}"
    finally:
        found.shutdown()
        found.server_close()


CONFIG = (200, {"defaults": {}, "overrides": {}})


class TestBounds:
    @pytest.mark.parametrize("new_token", [True, False], ids=["always another token", "the same token again"])
    @pytest.mark.parametrize("full", [True, False], ids=["with entries", "empty"])
    @pytest.mark.parametrize("what", ["namespaces", "tables"])
    def test_pages_without_end(self, new_token: bool, full: bool, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rest_pages, "MOST_PAGES", 50)
        asked = 0

        def answer(method: str, path: str, query: Mapping[str, list[str]]) -> tuple[int, Any]:
            nonlocal asked
            if path.endswith("/config"):
                return CONFIG
            asked += 1
            token = {"next-page-token": str(asked) if new_token else "more"}
            if path.endswith("/namespaces") and what == "namespaces":
                return 200, {"namespaces": [[f"n{asked}"]] if full else [], **token}
            if path.endswith("/namespaces"):
                return 200, {"namespaces": [] if "parent" in query else [["db"]]}
            return 200, {"identifiers": [{"namespace": ["db"], "name": f"t{asked}"}] if full else [], **token}

        with server(answer) as uri, pytest.raises(UnbelievableListingError, match="page"):
            opened(uri).pointers()
        assert asked <= 102

    def test_a_server_that_knows_no_levels(self) -> None:
        """Whatever the parent, it answers with the same namespaces."""

        def answer(method: str, path: str, query: Mapping[str, list[str]]) -> tuple[int, Any]:
            if path.endswith("/config"):
                return CONFIG
            if path.endswith("/namespaces"):
                return 200, {"namespaces": [["a"], ["b"]]}
            return 200, {"identifiers": []}

        with server(answer) as uri:
            assert opened(uri).pointers() == []

    def test_other_tables_each_time(self) -> None:
        asked = 0

        def answer(method: str, path: str, query: Mapping[str, list[str]]) -> tuple[int, Any]:
            nonlocal asked
            if path.endswith("/config"):
                return CONFIG
            if path.endswith("/namespaces"):
                asked += 1
                return 200, {"namespaces": [] if "parent" in query else [[f"n{asked}"]]}
            return 200, {"identifiers": []}

        with server(answer) as uri:
            assert opened(uri).pointers() == []

    @pytest.mark.parametrize("kind", ["credential", "oauth2"])
    def test_a_token_server_that_stays_silent(self, kind: str) -> None:
        def answer(method: str, path: str, query: Mapping[str, list[str]]) -> tuple[int, Any] | None:
            return None if "token" in path else CONFIG

        with server(answer) as uri:
            given: dict[str, Any] = {"type": "rest", "uri": uri, **QUICK}
            if kind == "credential":
                given |= {"credential": "me:secret", "oauth2-server-uri": f"{uri}/token"}
            else:
                login = {"client_id": "me", "client_secret": "secret", "token_url": f"{uri}/token"}
                given["auth"] = {"type": "oauth2", "oauth2": login}
            began = time.monotonic()
            with pytest.raises(CatalogUnavailableError, match=r"[Tt]imed? ?out"):
                open_format("lake", given, Stores(), lambda *_: None).pointers()
            assert time.monotonic() - began < 4


def test_an_answer_that_comes_a_byte_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause is as long as the patience between two pieces."""
    monkeypatch.setattr(rest_timeouts, "LONGEST_ANSWER", 1.0)
    monkeypatch.setattr(rest_timeouts, "MOST_BYTES", 1 << 20)
    door = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        guest, _ = door.accept()
        with guest, suppress(OSError):
            guest.recv(65536)
            guest.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            for _ in range(200):
                guest.sendall(b" ")
                time.sleep(0.05)

    threading.Thread(target=drip, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(CatalogUnavailableError, match="not at its end"):
        opened(f"http://127.0.0.1:{door.getsockname()[1]}").pointers()
    assert time.monotonic() - began < 8
    door.close()


@pytest.mark.parametrize("sigv4", [False, True])
def test_nothing_below_us_sends_a_request_again(sigv4: bool) -> None:
    with server(lambda *_: CONFIG) as uri:
        given = {"type": "rest", "uri": uri}
        if sigv4:
            given |= {"rest.sigv4-enabled": "true", "client.region": "x", "client.access-key-id": "a"}
            given |= {"client.secret-access-key": "b"}
        catalog: Any = connect("lake", given)
    tries = [adapter.max_retries for adapter in catalog._session.adapters.values()]
    assert [(retry.total, retry.read) for retry in tries] == [(0, False)] * len(tries)


@pytest.mark.parametrize("status", [401, 419, 503, 409])
def test_a_commit_is_sent_once(rest_world: RestWorld, tmp_path: Path, status: int) -> None:
    commits = 0

    def answer(method: str, path: str, query: Mapping[str, list[str]]) -> tuple[int, Any]:
        nonlocal commits
        if path.endswith("/config"):
            return CONFIG
        commits += 1
        return status, {"error": {"message": "no", "type": "No", "code": status}}

    table = rest_world.table("sales.orders")
    with server(answer) as uri:
        catalog = connect("lake", {"type": "rest", "uri": uri})
        with pytest.raises(Exception, match="no"):
            catalog.commit_table(table, (), ())
    assert commits == 1
