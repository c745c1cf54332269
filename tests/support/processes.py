"""What the test processes of one run, side by side, have in common, and what ends with each of them."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest


def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of this run that all its processes see."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def ends_with_us(number: int = signal.SIGKILL) -> Callable[[], None]:
    """For `preexec_fn` of a server: the kernel sends it this signal when its test process ends, however that ends.

    Fixtures that stop their server are not reached when a run is interrupted twice, or when a worker of it is killed.
    """
    parent = os.getpid()

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it ended before it could be asked for
            os._exit(1)

    return prepare
