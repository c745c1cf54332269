"""The demo's hand on the calendar: what a writer commits, and what the service does, on a day that is over. Nobody waits
a month for a demo."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from pyiceberg.table import metadata, snapshots, update

from lakewarden.model.clock import SystemClock
from lakewarden.steps.observe import clocks


class Past(SystemClock):
    """The time as it was so long ago, for the worker and for the stores that it asks."""

    def __init__(self, ago: timedelta) -> None:
        self.ago = ago

    def now(self) -> datetime:
        return datetime.now(UTC) - self.ago


@contextmanager
def committed(moment: datetime, warehouse: Path) -> Iterator[None]:
    """What PyIceberg commits meanwhile was committed then, one commit after the other, and its files were written then."""
    since = Past(datetime.now(UTC) - moment)

    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return since.now().astimezone(tz)

    before = {path for path in warehouse.rglob("*") if path.is_file()}
    with (
        patch.object(snapshots, "time", SimpleNamespace(time=lambda: since.now().timestamp())),
        patch.object(update, "datetime", Then),
        patch.object(metadata, "datetime", SimpleNamespace(datetime=Then)),
    ):
        yield
    for path in warehouse.rglob("*"):
        if path.is_file() and path not in before:
            os.utime(path, (moment.timestamp(),) * 2)


@contextmanager
def stores_in_the_past(clock: Past) -> Iterator[None]:
    """The stores of this machine know what time it is; a worker that lives in the past would refuse to believe them."""
    real = clocks.skew

    def skew(stores: Any, place: str, worker: str, ours: Any) -> timedelta:
        return real(stores, place, worker, ours) - clock.ago

    with patch.object(clocks, "skew", skew):
        yield
