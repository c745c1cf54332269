"""A restore drill: what was tried, and whether it came back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lakewarden.model.errors import Exit


class DrillPlace(StrEnum):
    """Where something is kept that has to come back."""

    QUARANTINE = "quarantine"
    COLD = "cold"


class DrillStatus(StrEnum):
    """`untried`: there is nothing yet, or it cannot be read at once."""

    PROVEN = "proven"
    FAILED = "failed"
    UNTRIED = "untried"


@dataclass(frozen=True, slots=True)
class Drill:
    """One thing that was to come back. `what` names it, `files` and `bytes` came back; `error` is an error's code and words."""

    place: DrillPlace
    status: DrillStatus
    what: str
    files: int = 0
    bytes: int = 0
    error: Mapping[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "place": str(self.place),
            "status": str(self.status),
            "what": self.what,
            "files": self.files,
            "bytes": self.bytes,
            "error": dict(self.error) if self.error else None,
        }


@dataclass(frozen=True, slots=True)
class DrillResult:
    """Everything that one drill tried."""

    drills: tuple[Drill, ...] = field(default_factory=tuple)

    @property
    def failed(self) -> list[Drill]:
        return [one for one in self.drills if one.status is DrillStatus.FAILED]

    @property
    def exit_code(self) -> Exit:
        return Exit.FAILED if self.failed else Exit.DONE

    def as_json(self) -> dict[str, Any]:
        return {"status": "failed" if self.failed else "done", "drills": [one.as_json() for one in self.drills]}
