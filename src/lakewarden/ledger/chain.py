"""How the journal is made tamper-evident: each entry's hash covers its content and the hash before it. Pure."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakewarden.ledger.runs import Run, Step
from lakewarden.model.files import BatchFiles
from lakewarden.model.uri import canonical


@dataclass(frozen=True, slots=True)
class Entry:
    """One link: an intent before a batch, or the outcome after it.

    An intent carries bounds of its batch's addresses, by which a file is found again; an outcome carries how many
    files and bytes met which end.
    """

    run_id: str
    seq: int
    kind: str
    batch_no: int
    at: datetime
    count: int
    total_bytes: int
    first_uri: bytes | None
    last_uri: bytes | None
    tallies: Mapping[str, Sequence[int]] | None
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
                _hex(self.first_uri),
                _hex(self.last_uri),
                sorted((name, *counts) for name, counts in (self.tallies or {}).items()),
                self.prev_hash,
                hashlib.sha256(content).hexdigest(),
            ]
        )


def first_hash(run: Run) -> str:
    """Where a run's chain begins. It covers who asked and by which plan, so that neither can be changed later."""
    actor = run.actor
    who = [actor.operator, actor.worker, actor.trigger.value, actor.ticket]
    return _sha256(["lakewarden journal 1", run.run_id, run.job, run.plan_id, _text(run.started_at), *who])


def noted_hash(steps: Sequence[Step]) -> str:
    """The hash of what a run noted, in order: what it removed that is no file, and how that can be made again."""
    return _sha256([json.dumps([step.name, step.detail, _text(step.at)], sort_keys=True) for step in steps])


def files_content(files: BatchFiles) -> bytes:
    """The files of an intent, in order, column by column, as bytes to keep and to hash."""
    return pack([files.uris, files.sizes, files.modified, files.etags, files.tables, files.kinds])


def files_of(content: bytes) -> BatchFiles:
    """The files of an intent, read back."""
    return BatchFiles(*unpack(content))


def pack(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def unpack(packed: bytes) -> Any:
    return json.loads(zlib.decompress(packed))


def sortable(uri: str) -> bytes:
    """An address as bytes, which every database orders alike; text is ordered by a server's locale."""
    return uri.encode("utf-8", "surrogatepass")


def spellings(uri: str) -> set[str]:
    """The names under which a file may be in the journal: the canonical one, and the one given."""
    try:
        return {uri, canonical(uri)}
    except ValueError:
        return {uri}


def _sha256(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="microseconds")
