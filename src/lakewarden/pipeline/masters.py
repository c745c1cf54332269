"""Where a master lets tasks run."""

from __future__ import annotations


def is_local(master: str | None) -> bool:
    """Whether tasks run on this very machine, in the JVM of the driver."""
    return master is not None and (master == "local" or master.startswith("local["))
