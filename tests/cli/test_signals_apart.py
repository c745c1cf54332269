"""The sweep of signals in a process of its own: a command that was stopped ends with its process, and leaves nothing there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = Path(__file__).with_name("test_signals_anywhere.py")


@pytest.mark.usefixtures("java")
def test_a_signal_at_any_moment_ends_the_command_and_is_told() -> None:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [sys.executable, "-m", "pytest", "-q", "-m", "soak", str(SWEEP)]
    done = subprocess.run(words, cwd=SWEEP.parents[2], env=ours, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "5 passed" in done.stdout
