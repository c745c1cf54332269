"""As much of Google Cloud Storage as a register needs: one bucket behind its XML interface, swapped by generation alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from lakewarden.storage.stores import Stores


class Objects:
    """What is stored: key → (generation, bytes)."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[int, bytes]] = {}
        self.lock = threading.Lock()
        self.generation = 1000


class _Handler(BaseHTTPRequestHandler):
    objects: Objects
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        wanted, key = self.headers.get("x-goog-if-generation-match"), unquote(self.path)
        with self.objects.lock:
            held = self.objects.held.get(key)
            if wanted is not None and int(wanted) != (held[0] if held else 0):
                return self._answer(412, None, b"")
            self.objects.generation += 1
            self.objects.held[key] = (self.objects.generation, data)
        self._answer(200, self.objects.generation, b"")

    def do_GET(self) -> None:
        held = self.objects.held.get(unquote(self.path))
        if held is None:
            return self._answer(404, None, b"")
        self._answer(200, held[0], held[1])

    do_HEAD = do_GET  # noqa: N815 - a name of http.server

    def _answer(self, status: int, generation: int | None, body: bytes) -> None:
        self.send_response(status)
        if generation is not None:
            self.send_header("ETag", f'"{generation:x}"')
            self.send_header("x-goog-generation", str(generation))
            self.send_header("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def google_bucket() -> Iterator[Stores]:
    """Stores with the bucket gs://lake on a server of our own."""

    class Handler(_Handler):
        objects = Objects()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    account = {
        "gcs_base_url": f"http://127.0.0.1:{server.server_address[1]}", "disable_oauth": True, "client_email": "",
        "private_key": "", "private_key_id": "",
    }  # fmt: skip
    try:
        yield Stores({"gs://lake": {"service_account_key": json.dumps(account), "allow_http": "true"}})
    finally:
        server.shutdown()
        server.server_close()
