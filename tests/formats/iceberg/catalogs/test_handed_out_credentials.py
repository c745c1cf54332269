"""Credentials that a REST server hands out with each answer, and that live shorter than a run: every look brings new ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest

from lakewarden.formats.iceberg.format import IcebergFormat
from lakewarden.storage.stores import Stores
from tests.support.lakes import small_lake

PLACE = "s3://bucket/sales/orders"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A catalog of one table. No server that is to be had here hands out other credentials with every answer."""
    table = small_lake(tmp_path, ["sales.orders"]).catalog().load_table("sales.orders")
    document = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text("utf-8"))
    document |= {"location": PLACE}
    answers: dict[str, object] = {
        "/v1/config": {"defaults": {}, "overrides": {}},
        "/v1/namespaces": {"namespaces": [["sales"]]},
        "/v1/namespaces/sales/tables": {"identifiers": [{"namespace": ["sales"], "name": "orders"}]},
    }
    numbers = count(1)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, asked = self.path.partition("?")
            answer = answers.get(path, {})
            if "parent=" in asked:
                answer = {"namespaces": []}
            elif path.endswith("/orders"):
                given = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.session-token": f"t-{next(numbers)}"}
                answer = {"metadata-location": f"{PLACE}/metadata/m.json", "metadata": document, "config": given}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    found = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{found.server_port}"
    found.shutdown()
    found.server_close()


def test_every_look_at_the_pointers_renews_them(server: str) -> None:
    """A plan looks, and an apply looks before each of its batches: no batch goes on with what an earlier one was given."""
    given: list[tuple[str, str]] = []

    def vend(location: str, options: Mapping[str, str]) -> None:
        given.append((location, options["s3.session-token"]))

    opened = IcebergFormat("rest", {"type": "rest", "uri": server}, Stores().of("rest"), vend)
    newest = []
    for _ in range(3):
        assert [one.identifier for one in opened.pointers()] == ["rest.sales.orders"]
        newest.append(given[-1])
    assert {place for place, _ in newest} == {PLACE}
    numbers = [int(token.removeprefix("t-")) for _, token in newest]
    assert numbers == sorted(set(numbers)), newest
