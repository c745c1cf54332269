"""How the processes of the service notice that the one which watches over them is gone: their standard input ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


def when_parent_is_gone(act: Callable[[], None]) -> None:
    """Call `act`, in a thread of its own, once the other end of standard input is closed."""

    def wait() -> None:
        # Python's own stdin has a lock that an ending interpreter would wait for.
        while os.read(0, 1024):
            continue
        act()

    threading.Thread(target=wait, daemon=True, name="lifeline").start()
