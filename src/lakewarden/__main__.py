"""`python -m lakewarden`, and the installed command: the command line."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn

# Imports make hundreds of thousands of objects that live for ever; looking through them for garbage again and again
# is a sixth of the start of a short command.
COLLECT_AFTER = 100_000


def run() -> NoReturn:
    """One command, from the words on the command line to its exit code, and the end of the process."""
    gc.set_threshold(COLLECT_AFTER)
    # Before the command begins and after it has ended there is nothing to tell: a signal ends the process, quietly.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_quietly)
    # pydantic would look through all installed packages for plugins, none of which we want.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from lakewarden.cli.streams import leave, sign_of_life, use_lasting_streams

    use_lasting_streams()
    sign_of_life.show(sys.argv)
    from lakewarden import logs
    from lakewarden.cli.main import main

    logs.hush_libraries(verbose="--verbose" in sys.argv)
    leave(main())


def _end_quietly(number: int, _: object) -> None:
    streams = sys.modules.get("lakewarden.cli.streams")
    if (sign := getattr(streams, "sign_of_life", None)) is not None:
        sign.wipe()  # the shell's next prompt is drawn over this line, and would be followed by what is left of it
    os._exit(128 + number)


if __name__ == "__main__":
    run()
