"""Server-sent events: what happened since an event that was seen, and whatever happens until the work is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from lakewarden.model.errors import TooBusyError
from lakewarden.service.access import may_still_look
from lakewarden.service.api.shapes import told

# How often the ledger is asked for news, and how often a silent stream says that it is there: proxies close silent ones.
LOOK_EVERY_SECONDS = 1.0
SILENT_SECONDS = 15.0
MOST_STREAMS = 100
_open_streams = 0

LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", pattern=r"^\d{1,18}$", description="The last event that was seen; browsers send it."),
]


@dataclass(frozen=True, slots=True)
class News:
    """Events after one that was seen, each with its id and name, and whether more can come."""

    events: Iterable[tuple[int, str, Any]]
    over: bool


def stream(request: Request, after: str | None, look: Callable[[int], News]) -> StreamingResponse:
    """An answer that goes on until the work is over, or whoever asked may not look any more.

    Raises TooBusyError where too many are open.
    """
    if _open_streams >= MOST_STREAMS:
        raise TooBusyError(f"{MOST_STREAMS} streams of events are open; close some")
    return StreamingResponse(_lines(request, int(after or 0), look), media_type="text/event-stream")


async def _lines(request: Request, seen: int, look: Callable[[int], News]) -> AsyncIterator[bytes]:
    global _open_streams
    _open_streams += 1
    silent = 0.0
    try:
        while await run_in_threadpool(may_still_look, request):
            news = await run_in_threadpool(look, seen)
            for number, name, detail in news.events:
                seen, silent = number, 0.0
                document = json.dumps(told(detail), ensure_ascii=False, default=str)
                yield f"id: {number}\nevent: {name}\ndata: {document}\n\n".encode()
            if news.over:
                # A browser would ask again for ever: this tells the page to close the stream.
                yield b"event: over\ndata: {}\n\n"
                return
            if silent >= SILENT_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            silent += LOOK_EVERY_SECONDS
    finally:
        _open_streams -= 1
