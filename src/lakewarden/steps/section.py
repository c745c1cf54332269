"""What a user may write of a job: the keys that every job has, and how strictly they are read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from lakewarden.model.redaction import redact
from lakewarden.model.uri import OPENED, STORES, FileUri

_CRON_FIELD = re.compile(r"^[0-9A-Za-z*/,\-]+$")


def _cron_line(text: str) -> str:
    from cronsim import CronSim, CronSimError

    fields = text.split()
    if len(fields) != 5 or not all(_CRON_FIELD.match(field) for field in fields):
        raise ValueError('must have five fields: minute hour day month weekday, such as "0 6 * * *"')
    try:
        if next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)), None) is None:
            raise CronSimError("there is no such day")
    except CronSimError as error:
        raise ValueError(f"is {text!r}, which is no cron line: {error}") from None
    return text


CronLine = Annotated[str, AfterValidator(_cron_line)]


class Section(BaseModel):
    """Strict: a string is not a number, and a key nobody knows is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redact(self.model_dump())})"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Floor:
    """The shortest time that a key may be set to, and what would happen below it."""

    least: timedelta
    hazard: str

    def above(self, hours: float) -> bool:
        """Whether so many hours are too few."""
        return timedelta(hours=hours) < self.least


class JobSection(Section):
    """What every job has. `dry_run` stops `run` and the schedule after the plan; `approval` lets the service wait there
    until somebody agrees.

    `section_only` are keys of the whole fleet, which no override and no table property may set; `floors` are margins,
    in hours by key, that configuration cannot go below.
    """

    section_only: ClassVar[frozenset[str]] = frozenset()
    floors: ClassVar[Mapping[str, Floor]] = {}

    enabled: bool = False
    dry_run: bool = True
    cron: CronLine | None = None
    approval: bool = False

    def without_effect(self) -> list[str]:
        """What was accepted and changes nothing, key first: safety is not a switch."""
        return []

    def below_floor(self) -> dict[str, Floor]:
        """The margins that are too short."""
        return {key: floor for key, floor in self.floors.items() if floor.above(getattr(self, key))}


def address(text: str) -> str:
    """An absolute path or an address, as an address. Raises ValueError."""
    if not text.startswith("/") and "://" not in text:
        raise ValueError(
            "must be an absolute path or an address such as file:///var/lib/lakewarden or s3://bucket/state"
        )
    if text.startswith("/"):
        return f"file://{posixpath.normpath(text)}"
    try:
        uri = FileUri.parse(text)
    except ValueError:
        raise ValueError("is not an address; write file:///path or s3://bucket/prefix") from None
    if uri.scheme not in OPENED:
        raise ValueError(f"is in no store that can be opened; allowed: {STORES}")
    return text
