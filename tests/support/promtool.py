"""promtool, Prometheus' own checker of rules and metrics."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.missing import missing


class PromtoolMissingError(Exception):
    """Prometheus is not installed here."""


def promtool(*words: str, given: bytes = b"", beside: Path | None = None) -> tuple[int, str]:
    """Run promtool; its exit code and all that it said."""
    program = shutil.which("promtool")
    if program is None:
        missing(PromtoolMissingError("promtool is not installed (apt-get install prometheus)"))
    done = subprocess.run(
        [program, *words], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=beside, check=False
    )
    return done.returncode, done.stdout.decode()
