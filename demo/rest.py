"""An Iceberg REST catalog of three routes over the demo's own tables: what the gateway needs to stand in front of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata

OK, NOT_FOUND, CONFLICT = 200, 404, 409


@contextmanager
def rest_catalog(catalog: SqlCatalog) -> Iterator[str]:
    """The address of a server that serves and changes the tables of a catalog, on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, catalog))
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, catalog: SqlCatalog, *given: object) -> None:
        self._catalog = catalog
        super().__init__(*given)  # type: ignore[arg-type]

    def log_message(self, format: str, *given: object) -> None:
        """Nothing: the demo's log is for what commands say."""

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/v1/config":
            self._answer(OK, {"defaults": {}, "overrides": {}})
        elif (name := self._table()) is not None and self._catalog.table_exists(name):
            table = self._catalog.load_table(name)
            self._answer(OK, _loaded(table.metadata_location, table.metadata))
        else:
            self._error(NOT_FOUND, "NoSuchTableException", "there is no such table")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if (name := self._table()) is None or not self._catalog.table_exists(name):
            self._error(NOT_FOUND, "NoSuchTableException", "there is no such table")
            return
        asked = CommitTableRequest.model_validate_json(body)
        try:
            made = self._catalog.commit_table(self._catalog.load_table(name), asked.requirements, asked.updates)
        except CommitFailedException as error:
            self._error(CONFLICT, "CommitFailedException", str(error))
        else:
            self._answer(OK, _loaded(made.metadata_location, made.metadata))

    def _table(self) -> tuple[str, ...] | None:
        match [unquote(part) for part in urlsplit(self.path).path.split("/")]:
            case ["", "v1", "namespaces", namespace, "tables", table]:
                return (*namespace.split("\x1f"), table)
        return None

    def _error(self, status: int, kind: str, message: str) -> None:
        self._answer(status, {"error": {"message": message, "type": kind, "code": status}})

    def _answer(self, status: int, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _loaded(location: str, metadata: TableMetadata) -> dict[str, object]:
    return {"metadata-location": location, "metadata": json.loads(metadata.model_dump_json()), "config": {}}
