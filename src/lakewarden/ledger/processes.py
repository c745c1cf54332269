"""Which process this is, and when another one of this machine began: proof that a lease's holder is dead."""

from __future__ import annotations

import os

from lakewarden.model.lease import Process


def own_process() -> Process | None:
    """This process, or None where the system does not tell (then nobody's death can be proven)."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    started = started_at(os.getpid())
    return Process(boot_id, space, os.getpid(), started) if started is not None else None


def started_at(pid: int) -> int | None:
    """The start tick of a living process, None if there is none (or it only waits to be reaped)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except FileNotFoundError:
        return None
    except OSError:
        return -1 if os.path.exists(f"/proc/{pid}") else None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
