"""What the supervisor and its runners call each other."""

from __future__ import annotations

import os
import secrets

# The exit code of a runner whose Spark died: the supervisor begins anew at once.
BEGIN_ANEW = 75


def new_name(worker: str) -> str:
    """A runner's own name: no other process ever has it."""
    return f"{worker}/{os.getpid()}-{secrets.token_hex(4)}"
