"""How a process of ours ends: at once, whatever its threads are doing."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process with that code, once what it printed is written and what is to be done at an exit is done.

    Python's own ending waits for some threads, though Spark may still be starting in one, and is unsafe with others: one
    that comes back from a library in C++ meanwhile is torn out of it, and the process aborts after its last word.
    """
    _flush()
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader has gone, or somebody closed it
            stream.flush()
