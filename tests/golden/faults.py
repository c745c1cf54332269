"""What goes wrong in a scene, each fault at one place: in the middle of an apply, when its first batch is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lakewarden.model.lease import Work
from lakewarden.steps.apply.file_run import FileRun
from tests.golden.lake import GoldenLake
from tests.support.signals import send


def after_first_batch(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act once, when the run's first batch is over, in the thread that goes on with the next."""
    real = FileRun._delete
    acted: list[bool] = []

    def watched(self: FileRun, *given: Any, **more: Any) -> None:
        real(self, *given, **more)
        if not acted:
            acted.append(True)
            act()

    patch.setattr(FileRun, "_delete", watched)


def ctrl_c() -> None:
    send(signal.SIGINT)


def suspended(lake: GoldenLake) -> Callable[[], None]:
    """The process sleeps for an hour, as in a machine that was closed: its leases run out."""

    def sleep() -> None:
        lake.clock.slept += 3600

    return sleep


def undeletable(patch: pytest.MonkeyPatch, part: str) -> None:
    """The disk refuses to let go of files of such a name."""
    real = os.unlink

    def unlink(path: Any, *given: Any, **more: Any) -> None:
        if part in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        real(path, *given, **more)

    patch.setattr(os, "unlink", unlink)


@contextmanager
def lease_of_another(lake: GoldenLake, key: str, work: Work | None = None) -> Iterator[None]:
    """Another worker of this deployment holds a lease."""
    from lakewarden.ledger.leases import Leases

    with lake.warden() as warden:
        leases = warden._deployment.leases
        other = Leases(leases._stores, leases._base, lake.clock, "night-2")
        with other.acquire(key, 600, work=work):
            yield
