"""Many clients of a gateway at once, by plain connections: how long each request took, and which of them failed."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

# A catalog that takes many commits at once; one on SQLite answers that its database is locked.
IN_MEMORY = {"catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog"}


@dataclass
class Client:
    """One connection that is kept."""

    uri: str
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.uri)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        self._base = parts.path

    def ask(self, method: str, path: str, document: Any = None) -> tuple[int, bytes]:
        body = document if isinstance(document, bytes) or document is None else json.dumps(document).encode()
        self._connection.request(method, self._base + path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        self._connection.close()


def append(snapshot: int, path: str, sequence: int, parent: int | None, **summary: str) -> dict[str, Any]:
    """A commit of one snapshot without files on `main`."""
    made = {
        "snapshot-id": snapshot,
        "sequence-number": sequence,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": path,
        "schema-id": 0,
        "summary": {"operation": "append", **summary},
        **({} if parent is None else {"parent-snapshot-id": parent}),
    }
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot}
    return {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
        "updates": [{"action": "add-snapshot", "snapshot": made}, ref],
    }


TABLE = {
    "schema": {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
    },
    "partition-spec": {"spec-id": 0, "fields": []},
    "write-order": {"order-id": 0, "fields": []},
    "properties": {"format-version": "2"},
}


def commits(uri: str, table: str, count: int) -> list[float]:
    """So many appends to a table of one's own, each timed in seconds. Raises RuntimeError for an answer that is not 200."""
    client, parent = Client(uri), None
    status, said = client.ask("POST", "/v1/namespaces/load/tables", {**TABLE, "name": table})
    _check(status, said)
    location = json.loads(said)["metadata"]["location"]
    took = []
    for number in range(1, count + 1):
        body = append(
            number,
            f"{location}/metadata/snap-{number}.avro",
            number,
            parent,
            **{"writer.id": "load", "trigger.type": "schedule"},
        )
        began = time.perf_counter()
        status, said = client.ask("POST", f"/v1/namespaces/load/tables/{table}", body)
        took.append(time.perf_counter() - began)
        _check(status, said)
        parent = number
    client.close()
    return took


def at_once(clients: int, work: Callable[[int], list[float]]) -> tuple[list[float], list[str]]:
    """What each of many clients measured, and what went wrong for any of them."""
    took: list[float] = []
    failed: list[str] = []

    def one(number: int) -> None:
        try:
            took.extend(work(number))
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            failed.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, failed


def _check(status: int, said: bytes) -> None:
    if status != 200:
        raise RuntimeError(f"status {status}: {said[:300]!r}")
