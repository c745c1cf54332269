"""A small HTTP front before a real REST catalog: everything passes, but for what a test changes in the answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

# Takes the path asked for and the server's answer, and may change the answer.
Change = Callable[[str, dict[str, Any]], None]


@contextmanager
def front(uri: str, change: Change) -> Iterator[str]:
    """The address of a server that asks the one at `uri` and hands on its answers, changed."""
    behind = urlsplit(uri)

    class Front(BaseHTTPRequestHandler):
        def _pass(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            connection = HTTPConnection(behind.hostname or "", behind.port, timeout=30)
            kept = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")
            }
            connection.request(self.command, self.path, self.rfile.read(length) if length else None, kept)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
            connection.close()
            if status == 200 and body:
                document = json.loads(body)
                change(urlsplit(self.path).path, document)
                body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read their own output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def overriding(properties: dict[str, str]) -> Change:
    """As a server does that tells its clients what to use: these properties, in the answer to `/v1/config`."""

    def change(path: str, document: dict[str, Any]) -> None:
        if path.endswith("/v1/config"):
            document.setdefault("overrides", {}).update(properties)

    return change
