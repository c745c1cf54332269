"""Which version of its program a writer runs."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

# Says which version of its program a writer runs, where no repository is at hand.
COMMIT_VARIABLES = ("LAKEWARDEN_COMMIT_HASH", "GIT_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA")


@cache
def version_of_program() -> str:
    """Of the program that runs: as its environment says, or of the repository that it lies in, with `-dirty` behind it
    where files of the repository are not as that version has them. Empty where nobody knows."""
    for variable in COMMIT_VARIABLES:
        if value := os.environ.get(variable, "").strip():
            return value
    program = Path(sys.argv[0] or ".").resolve()
    place = program if program.is_dir() else program.parent
    return _git(place, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or _git(
        place, "rev-parse", "HEAD"
    )


def _git(place: Path, *words: str) -> str:
    """What git says of the repository at a place; empty where there is none, or it takes too long."""
    command = ["git", "--no-optional-locks", "-C", str(place), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
