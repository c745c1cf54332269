"""What a metadata document says in two places must agree: where it does not, something of it was lost.

A document that lost one of its snapshots is still a valid one, only smaller, and all that the snapshot alone needs would
look like orphans. Refs, the current snapshot and the log of snapshots tell of it, because writers keep them in step:
whoever removes a snapshot removes its refs and trims the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakewarden.foreign.json_text import integer, integer_or_none
from lakewarden.model.errors import ContradictoryMetadataError

Document = Mapping[str, Any]

NUMBERED = 2  # the version of the format since which commits have numbers


def check_consistent(uri: str, document: Document) -> None:
    """Raise ContradictoryMetadataError where two places of the document cannot both be true."""
    ids = [integer(snapshot["snapshot-id"]) for snapshot in document.get("snapshots") or []]
    known = set(ids)
    if len(known) != len(ids):
        raise ContradictoryMetadataError(f"{uri} has two snapshots of one id; nothing was touched")
    for who, number in _named(document):
        if number not in known:
            raise ContradictoryMetadataError(
                f"in {uri} {who} names the snapshot {number}, which is not among its snapshots; nothing was touched"
            )
    _check_numbers(uri, document)


def _named(document: Document) -> Iterator[tuple[str, int]]:
    """Every snapshot that must be there, and who says so."""
    current = integer_or_none(document.get("current-snapshot-id"))
    if current not in (None, -1):
        yield "current-snapshot-id", current
    for name, ref in (document.get("refs") or {}).items():
        yield f"the ref {name!r}", integer(ref["snapshot-id"])
    for entry in document.get("snapshot-log") or []:
        yield "snapshot-log", integer(entry["snapshot-id"])


def _check_numbers(uri: str, document: Document) -> None:
    """Commits are counted. A count that is lost or behind hides which snapshots there were (`recent.py` goes by it)."""
    if integer(document["format-version"]) < NUMBERED:
        return
    last = integer_or_none(document.get("last-sequence-number"))
    newest = max((integer(s.get("sequence-number") or 0) for s in document.get("snapshots") or []), default=0)
    if last is None or last < newest:
        raise ContradictoryMetadataError(
            f"{uri} counts {last} commits as last-sequence-number and has the snapshot of commit {newest}; nothing was touched"
        )
