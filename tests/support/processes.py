"""What the test processes of one run, side by side, have in common."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of this run that all its processes see."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
