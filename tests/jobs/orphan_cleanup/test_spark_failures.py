"""What an operator is told when Spark fails: the cause, in one line."""

from __future__ import annotations

import pytest

from lakewarden.steps.in_spark import spark_failure

FROM_JAVA = """An error occurred while calling o50.collectToPython.
: java.lang.NoClassDefFoundError: Could not initialize class Allocation
\tat org.apache.arrow.memory.Roots.<init>(Roots.java:12)
Caused by: java.lang.UnsupportedOperationException: no direct memory
\tat io.netty.buffer.EmptyByteBuf.memoryAddress(EmptyByteBuf.java:961)
\t... 29 more
"""
FROM_A_WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "reading.py", line 3, in run
    raise OSError("disk full")
OSError: disk full
"""


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (FROM_JAVA, "java.lang.UnsupportedOperationException: no direct memory"),
        (FROM_A_WORKER, "OSError: disk full"),
        ("", "RuntimeError: "),
    ],
)
def test_the_innermost_cause_is_named(said: str, cause: str) -> None:
    message = spark_failure(RuntimeError(said)).message
    assert cause in message
    assert "more" not in message
