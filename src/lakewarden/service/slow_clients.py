"""Connections on which a request never arrives whole are closed: some thousands of them would leave none for others."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LOOK_EVERY_SECONDS = 30.0
# What a request's sender still owes: its head, or a part of its body.
_OWES = (h11.IDLE, h11.SEND_BODY)


class PatientForAWhile(H11Protocol):
    """HTTP/1.1 that gives a sender one look's time, two at most, for each request. An answer may take as long as it likes."""

    _owed: tuple[Any, Any] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(LOOK_EVERY_SECONDS, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        before = self._owed
        self._owed = (self.conn.their_state, self.cycle) if self.conn.their_state in _OWES else None
        if self._owed is not None and self._owed == before:
            self.transport.close()
            return
        self.loop.call_later(LOOK_EVERY_SECONDS, self._look)
