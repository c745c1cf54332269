"""`lakewarden` as a process of its own for pictures: the real command on a real terminal, at a time that stands still.

`python -m tests.golden.process WORDS…`. `GOLDEN_PAUSE=FILE:COUNT` makes an apply wait behind its batch of that number until
the file is there, so that a picture can be taken of its progress.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

PAUSE = "GOLDEN_PAUSE"


def main() -> int:
    from lakewarden import wiring
    from lakewarden.cli import night_text, step
    from lakewarden.cli.main import main as command
    from lakewarden.steps.observe import clocks
    from tests.golden.clock import StandingClock

    clock, real = StandingClock(), clocks.skew

    def skew(*given: Any) -> timedelta:
        return real(*given) + clock.passed

    # However long a step takes here, a picture shows it alike.
    step.duration = night_text._seconds = lambda _: "0.4 s"
    wiring.SystemClock = lambda: clock  # type: ignore[misc, assignment]
    clocks.skew = skew
    if PAUSE in os.environ:
        file, _, count = os.environ[PAUSE].rpartition(":")
        _pause_behind(int(count), Path(file))
    return command(sys.argv[1:])


def _pause_behind(count: int, file: Path) -> None:
    from lakewarden.steps.apply.file_run import FileRun

    real, batches = FileRun._delete, []

    def delete(self: FileRun, *given: Any, **more: Any) -> None:
        while len(batches) == count and not file.exists():
            time.sleep(0.05)
        batches.append(1)
        real(self, *given, **more)

    FileRun._delete = delete  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
