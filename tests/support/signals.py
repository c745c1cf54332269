"""A signal to the command that works in this process, heard before the command goes on."""

from __future__ import annotations

import os
import time

from lakewarden.cli.signals import command


def send(number: int) -> None:
    """Send it and wait until the command was told: it works in another thread than the one that hears signals."""
    os.kill(os.getpid(), number)
    while command().stop.requested is None:
        time.sleep(0.001)
