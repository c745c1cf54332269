"""Bodies of requests: passed on chunk by chunk, or read whole within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakewarden.gateway.answers import Receive
from lakewarden.model.errors import CommitTooLargeError, GatewayBusyError, SilentClientError

# How long a client may pause in the middle of its request.
SILENT_SECONDS = 60.0


class HungUpError(Exception):
    """The client is gone before its request was whole."""


@dataclass(slots=True)
class Room:
    """How many bytes of commits may wait for their verdict at once."""

    most: int
    taken: int = 0

    @contextmanager
    def for_one(self) -> Iterator[Held]:
        """Room for one body, let go of at the end."""
        held = Held(self)
        try:
            yield held
        finally:
            self.taken -= held.bytes


@dataclass(slots=True)
class Held:
    room: Room
    bytes: int = 0

    def take(self, count: int) -> None:
        """Raises GatewayBusyError if there is no room."""
        if self.room.taken + count > self.room.most:
            raise GatewayBusyError("too many commits are being judged at this moment; this one was not passed on")
        self.room.taken += count
        self.bytes += count


async def chunks_of(receive: Receive) -> AsyncIterator[bytes]:
    """The body as it comes. Raises HungUpError, which ends the request to the catalog unfinished."""
    while True:
        try:
            message = await asyncio.wait_for(receive(), SILENT_SECONDS)
        except TimeoutError:
            raise SilentClientError(
                f"the client sent nothing for {SILENT_SECONDS:.0f} s; the request was not passed on"
            ) from None
        if message["type"] == "http.disconnect":
            raise HungUpError
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body"):
            return


async def hung_up(receive: Receive) -> None:
    """Ends when the client is gone, or has all of its answer. What it still sends is no longer of use."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def whole_body(receive: Receive, room: Held, most: int) -> bytes:
    """The whole body. Raises HungUpError, CommitTooLargeError and GatewayBusyError: nothing of it is passed on then."""
    found = bytearray()
    async for chunk in chunks_of(receive):
        if len(found) + len(chunk) > most:
            raise CommitTooLargeError(f"the commit has more than {most:,} bytes; it was not passed on")
        room.take(len(chunk))
        found += chunk
    return bytes(found)
