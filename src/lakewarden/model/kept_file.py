"""A file that the worker left in its own state, as the ledger remembers it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptFile:
    """What the file holds, where it is, and what proves that it is still the one that was written."""

    kind: str
    uri: str
    sha256: str
    rows: int
    bytes: int
