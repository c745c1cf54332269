"""`python -m lakewarden`, and the installed command: the command line."""

from __future__ import annotations

import gc

# Imports make hundreds of thousands of objects that live for ever; looking through them for garbage again and again
# is a sixth of the start of a short command.
COLLECT_AFTER = 100_000


def run() -> int:
    """One command, from the words on the command line to its exit code."""
    gc.set_threshold(COLLECT_AFTER)
    from lakewarden.cli.main import main

    return main()


if __name__ == "__main__":
    raise SystemExit(run())
