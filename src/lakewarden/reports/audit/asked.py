"""What a question is about: a file by its address, or a snapshot by its id, alone or as `table@id`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewarden.model.errors import UsageError
from lakewarden.reports.asked_file import address_of

_SNAPSHOT = re.compile(r"(?:(?P<table>.+)@)?(?P<id>-?[0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class AskedSnapshot:
    """A snapshot; `table` is an identifier or a uuid, and empty where any table may have it."""

    snapshot_id: int
    table: str = ""

    def __str__(self) -> str:
        return f"{self.table}@{self.snapshot_id}" if self.table else str(self.snapshot_id)


def asked(text: str) -> AskedSnapshot | str:
    """A snapshot, or a file's address. Raises UsageError for what is neither."""
    return snapshot_asked(text) if _SNAPSHOT.fullmatch(text) and "://" not in text else address_of(text)


def snapshot_asked(text: str) -> AskedSnapshot:
    """Raises UsageError for what names no snapshot."""
    found = _SNAPSHOT.fullmatch(text)
    number = int(found["id"]) if found else 0
    if found is None or not -(2**63) <= number < 2**63:
        raise UsageError(
            f"{text!r} names no snapshot; nothing was looked up",
            hint="Name a snapshot by its id, or as TABLE@ID, such as lake.db.events@4727.",
        )
    return AskedSnapshot(number, found["table"] or "")
