"""Asks a service so many times a second, whether it answers or not, and says how long the answers took.

    python -m bench.service_load URL TOKEN RATE SECONDS PATH…

Every call has its moment. What is late because an earlier answer was late counts from its moment, as a user would count.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from urllib.parse import urlsplit

CONNECTIONS = 64
GIVEN_UP_SECONDS = 30.0


class Caller:
    """One connection that is kept open, and opened again when the other side closes it."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._place = (host, port)
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nAccept: */*\r\n\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str) -> int:
        """The status of the answer, which is read to its end."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._place)
        reader, writer = self._streams
        try:
            writer.write(f"GET {path} HTTP/1.1\r\n{self._head}".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
        except BaseException:
            self._streams = None
            writer.close()
            raise
        return int(head[9:12])


async def load(url: str, token: str, rate: float, seconds: float, paths: list[str]) -> dict[str, object]:
    place = urlsplit(url)
    free: asyncio.Queue[Caller] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(Caller(str(place.hostname), int(place.port or 80), token))
    took: list[float] = []
    statuses: Counter[str] = Counter()

    async def call(path: str, due: float) -> None:
        caller = await free.get()
        try:
            statuses[str(await asyncio.wait_for(caller.ask(path), GIVEN_UP_SECONDS))] += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            statuses[type(error).__name__] += 1
        finally:
            free.put_nowait(caller)
        took.append(time.perf_counter() - due)

    began = time.perf_counter()
    calls: set[asyncio.Task[None]] = set()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        if (early := due - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        task = asyncio.create_task(call(paths[number % len(paths)], due))
        calls.add(task)
        task.add_done_callback(calls.discard)
    await asyncio.gather(*calls)
    ordered = sorted(took)
    at = {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in (("p50", 0.5), ("p99", 0.99))
    }
    return {"statuses": dict(statuses), "calls": len(took), "max": ordered[-1], **at}


if __name__ == "__main__":
    address, bearer, per_second, lasting, *asked = sys.argv[1:]
    print(json.dumps(asyncio.run(load(address, bearer, float(per_second), float(lasting), asked))))
