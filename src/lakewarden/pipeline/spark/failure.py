"""What Spark names as the cause of a failure, without the trace of Java's."""

from __future__ import annotations

import re

JAVA_TRACE = re.compile(r"\s*(at \S+\(.*\)|\.\.\. \d+ more)$")


def cause_of(error: BaseException) -> str:
    """The kind of the failure and its innermost cause, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not JAVA_TRACE.match(line)]
    return f"{type(error).__name__}: {lines[-1].removeprefix('Caused by: ') if lines else error}"
