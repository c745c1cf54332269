"""What the table of a commit requires: the configuration, and the table's properties as its catalog tells them now."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.foreign.json_text import read_object
from lakewarden.gateway.commits import Change
from lakewarden.gateway.headers import Fields, passed_on, sent_on
from lakewarden.gateway.upstream import Upstream
from lakewarden.model.errors import LakewardenError, UpstreamDownError
from lakewarden.model.lineage import ALLOWED, ICEBERG, REQUIRED, Requirements, violations

MOST_REMEMBERED = 10_000
MOST_METADATA_BYTES = 128 << 20
LONG = 256 << 10
# Of a loaded table nothing is wanted but its properties: no credentials, no snapshot but those of refs.
_REFS_ONLY = b"?snapshots=refs"
_NOT_ASKED = (
    b"content-length", b"content-type", b"content-encoding", b"accept-encoding", b"if-none-match", b"idempotency-key",
    b"x-iceberg-access-delegation", b"x-request-id", b"traceparent", b"tracestate", b"b3",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Turned:
    """The catalog does not show the table to this client: its answer is the client's answer."""

    status: int
    fields: Fields
    body: bytes


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A table by its name, and the path under which the catalog serves it. `known_as`: every name it may have in overrides."""

    identifier: str
    path: str
    known_as: tuple[str, ...]


class Rules:
    """Requirements of tables, remembered for some seconds for each client that may see them."""

    def __init__(
        self,
        upstream: Upstream,
        requirements: Callable[[str, Mapping[str, str]], Requirements],
        seconds: float,
        now: Callable[[], float],
    ) -> None:
        self._upstream = upstream
        self._requirements = requirements
        self._seconds = seconds
        self._now = now
        self._known: OrderedDict[tuple[bytes, str], tuple[float, Mapping[str, str]]] = OrderedDict()
        self._forgotten = 0

    async def violations(self, table: ServedTable, fields: Fields, change: Change) -> list[str] | Turned:
        """What the new snapshots of a change lack. A change of the rules counts only where it makes them stricter."""
        if not change.is_judged:
            return []
        before = await self._properties(table, fields)
        if isinstance(before, Turned):
            # Only a change that the catalog makes for no table but a new one may go on without the table's own rules.
            if before.status != 404 or not change.creates:
                return before
            before = {}
        both = (before, change.properties_after(before))
        rules = [self._requirements(name, properties) for name in table.known_as for properties in both]
        if change.replaces and any(one.anything for one in rules):
            return ["the history that is registered in its place cannot be judged"]
        found = (words for summary in change.summaries for one in rules for words in violations(summary, one, ICEBERG))
        return list(dict.fromkeys(found))

    def forget(self) -> None:
        """Ask the catalog again, after a request that may have changed what a table requires, or which table has a name."""
        self._known.clear()
        self._forgotten += 1

    async def _properties(self, table: ServedTable, fields: Fields) -> Mapping[str, str] | Turned:
        """The table's own rules. Raises UpstreamDownError if nobody knows."""
        asking = sent_on(fields, self._upstream.host, without=_NOT_ASKED)
        # Whoever may not see a table must not learn its rules from the memory of somebody who may.
        key = (hashlib.sha256(repr(sorted(asking)).encode()).digest(), table.path)
        if (known := self._known.get(key)) is not None and self._now() < known[0]:
            return known[1]
        asked, forgotten = self._now(), self._forgotten
        try:
            answer = await self._upstream.ask(
                "GET", table.path.encode() + _REFS_ONLY, [*asking, (b"Accept-Encoding", b"identity")]
            )
            try:
                body = await answer.whole(MOST_METADATA_BYTES)
            finally:
                await answer.close()
        except LakewardenError as error:
            raise UpstreamDownError(f"{error.message}, so the commit was not judged and not passed on") from error
        if 400 <= answer.status < 500 and body is not None:
            return Turned(answer.status, passed_on(answer.fields, without=[b"content-length"]), body)
        if answer.status != 200 or body is None:
            raise UpstreamDownError(
                f"the catalog does not tell what the table requires (status {answer.status}); the commit was not passed on"
            )
        # Long documents are read beside the loop, so that nobody else waits for them.
        found = await asyncio.to_thread(_own_rules, body) if len(body) > LONG else _own_rules(body)
        # What was asked before somebody changed it is true of this commit, and not of the next.
        if self._seconds and forgotten == self._forgotten:
            self._known[key] = (asked + self._seconds, found)
            while len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return found


def _own_rules(body: bytes) -> Mapping[str, str]:
    """The properties of a loaded table that are rules of lineage. Raises UpstreamDownError if there is no reading it."""
    try:
        document: Any = read_object(body, "the table's metadata", most_bytes=MOST_METADATA_BYTES)
        properties = document["metadata"].get("properties") or {}
        return {
            str(name): str(value)
            for name, value in properties.items()
            if name in (REQUIRED, ALLOWED) or name.startswith(f"{REQUIRED}.")
        }
    except (LakewardenError, KeyError, AttributeError, TypeError) as error:
        raise UpstreamDownError(
            "the catalog's answer about the table cannot be read; the commit was not passed on"
        ) from error
