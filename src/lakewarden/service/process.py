"""What the processes of the service have in common: how they end when nobody watches over them, and what they say then."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from lakewarden.leaving import end_process
from lakewarden.model.errors import LakewardenError
from lakewarden.model.redaction import redact


def when_parent_is_gone(act: Callable[[], None]) -> None:
    """Call `act`, in a thread of its own, once the other end of standard input is closed."""

    def wait() -> None:
        # Python's own stdin has a lock that an ending interpreter would wait for.
        while os.read(0, 1024):
            continue
        act()

    threading.Thread(target=wait, daemon=True, name="lifeline").start()


def live(main: Callable[[], int]) -> NoReturn:
    """Do the work of a process and end it; an error of ours is said in words, without a trace."""
    try:
        code = main()
    except LakewardenError as error:
        sys.stderr.write(f"{redact(str(error))}\n{redact(error.hint)}\n")
        code = int(error.exit_code)
    end_process(code)
