"""The pages of a REST server's listings: as many as it takes, and never without end.

A page that is not understood is no empty page: each has its field, a new token or none, and names of the place asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lakewarden.model.errors import UnbelievableListingError

MOST_PAGES = 10_000
MOST_EMPTY_PAGES = 100  # in a row, each with a token for one more
MOST_SECONDS = 600.0

# Takes the parameters of a request, and gives the parsed answer.
Ask = Callable[[Mapping[str, str]], Mapping[str, Any]]


def entries_of(what: str, field: str, params: Mapping[str, str], ask: Ask) -> Iterator[Any]:
    """Every entry of every page. Raises UnbelievableListingError."""
    began = time.monotonic()
    tokens: set[str] = set()
    empty = 0
    asked = dict(params)
    while True:
        page = ask(asked)
        entries = page.get(field) if isinstance(page, dict) else None
        if not isinstance(entries, list):
            raise _unbelievable(what, f"an answer without {field}")
        yield from entries
        token = page.get("next-page-token")
        if not token:
            return
        empty = 0 if entries else empty + 1
        if token in tokens:
            raise _unbelievable(what, "the same page token twice")
        tokens.add(token)
        if len(tokens) >= MOST_PAGES or empty >= MOST_EMPTY_PAGES or time.monotonic() - began > MOST_SECONDS:
            raise _unbelievable(what, f"a token for one more page after {len(tokens)} pages, the last {empty} empty")
        asked["pageToken"] = str(token)


def _unbelievable(what: str, why: str) -> UnbelievableListingError:
    return UnbelievableListingError(f"the server gave {why} when it listed {what}; nothing was planned or changed")
