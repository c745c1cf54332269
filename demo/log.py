"""Whether every line of the demo's log is ours: what Spark, Ivy, the JVM or Python say for themselves is not for users."""

from __future__ import annotations

import re
from pathlib import Path

from demo.terminal import expect

# How lines begin that a logger of Java's or Python's, the JVM, Ivy or a traceback writes.
STRANGE = re.compile(
    r"^(?:\d\d/\d\d/\d\d \d\d:|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d+ |WARNING:|WARN\b|ERROR\b|INFO\b|Traceback |\s+at [\w.$<>]+\("
    r"|\s+File \"|[\w.]*(?:Error|Exception|Warning): |::|OpenJDK|Picked up |SLF4J|Using Spark's|Setting default log|To adjust logging"
    r"|\t|Ivy |The jars for|org\.apache\.|.*BrokenPipe)"
)


def strange_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if STRANGE.match(line)]


def check(log: Path) -> None:
    found = strange_lines(log.read_text(encoding="utf-8"))
    expect(not found, f"{len(found)} lines of the log are not Lakewarden's: {found[:3]}")
