"""How the journal is made tamper-evident: each entry's hash covers its content and the hash before it. Pure."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lakewarden.ledger.runs import Run
from lakewarden.model.ports import JournalFile
from lakewarden.model.uri import canonical

INTENT, OUTCOME = "intent", "outcome"


class OutcomeRow(NamedTuple):
    """One file's outcome as stored. `position` is its place in the batch's intent."""

    position: int
    uri_hash: int
    size: int
    outcome: str
    code: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One link: an intent before a batch, or the outcome after it."""

    run_id: str
    seq: int
    kind: str
    batch_no: int
    at: datetime
    count: int
    total_bytes: int
    prev_hash: str

    def hash(self, content: bytes) -> str:
        """What the next link must name. Covers every column of this one, and what it is about."""
        return _sha256(
            [
                self.run_id,
                self.seq,
                self.kind,
                self.batch_no,
                _text(self.at),
                self.count,
                self.total_bytes,
                self.prev_hash,
                hashlib.sha256(content).hexdigest(),
            ]
        )


def first_hash(run: Run) -> str:
    """Where a run's chain begins. It covers who asked and by which plan, so that neither can be changed later."""
    actor = run.actor
    who = [actor.operator, actor.worker, actor.trigger.value, actor.ticket]
    return _sha256(["lakewarden journal 1", run.run_id, run.job, run.plan_id, _text(run.started_at), *who])


def files_content(files: Sequence[JournalFile]) -> bytes:
    """The files of an intent, in order, as bytes to keep and to hash."""
    rows = [(f.uri, f.size, f.modified and _text(f.modified), f.etag, f.table, str(f.kind)) for f in files]
    return json.dumps(rows, separators=(",", ":")).encode()


def files_of(content: bytes) -> tuple[JournalFile, ...]:
    """The files of an intent, read back."""
    return tuple(
        JournalFile(uri, size, datetime.fromisoformat(modified) if modified else None, etag, table, kind)
        for uri, size, modified, etag, table, kind in json.loads(content)
    )


def names_of(content: bytes) -> list[tuple[str, int]]:
    """Name and size of each file of an intent: all that closing a batch needs."""
    return [(row[0], row[1]) for row in json.loads(content)]


def outcomes_content(rows: Iterable[OutcomeRow]) -> bytes:
    """The outcome rows of a batch, in order of position, as bytes to hash."""
    return json.dumps(list(rows), separators=(",", ":")).encode()


def pack(content: bytes) -> bytes:
    return zlib.compress(content, 1)


def unpack(packed: bytes) -> bytes:
    return zlib.decompress(packed)


def spellings(uri: str) -> set[str]:
    """The names under which a file may be in the journal: the canonical one, and the one given."""
    try:
        return {uri, canonical(uri)}
    except ValueError:
        return {uri}


def uri_hash(uri: str) -> int:
    """A signed 64-bit number for an index. Two files may share it, so a hit is always compared by name."""
    digest = hashlib.blake2b(uri.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _sha256(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def _text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="microseconds")
