"""Keys that no real test server keeps (`//`, `..`): a tiny fake answers the listing, the root must be unknown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lakewarden.model.ports import Shard
from lakewarden.storage.listing import list_shard
from lakewarden.storage.stores import Stores

ITEM = (
    "<Contents><Key>{}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
    "<ETag>&quot;a&quot;</ETag><Size>{}</Size></Contents>"
)


class Fake(BaseHTTPRequestHandler):
    keys: tuple[tuple[str, int], ...] = ()

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        items = "".join(ITEM.format(key, size) for key, size in self.keys)
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def fake() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Fake)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def rows(endpoint: str) -> list[tuple[str, str | None]]:
    options = {"endpoint": endpoint, "access_key_id": "a", "secret_access_key": "b", "region": "r"}
    found = list_shard(Stores({"s3://fake": options}), Shard(0, "s3://fake/t/"))
    return [(row["key"], row["flag"]) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("key", ["t//x", "t/../x", "t/./x"])
def test_one_bad_key_makes_the_shard_unknown(fake: str, key: str) -> None:
    Fake.keys = (("t/a", 1), (key, 1))
    assert any(flag is not None and flag.startswith("unlistable: ") for _key, flag in rows(fake))


def test_a_full_marker_listed_beside_its_namesake_is_a_duplicate(fake: str) -> None:
    Fake.keys = (("t/a", 1), ("t/z", 1), ("t/z-1", 1), ("t/z/", 1))
    found = [(key.removeprefix("s3://fake/t/"), flag) for key, flag in rows(fake)]
    assert found == [("a", None), ("z", "duplicate"), ("z-1", None), ("z", "duplicate")]
