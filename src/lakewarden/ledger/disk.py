"""Whether the state takes another write, and if not, why."""

from __future__ import annotations

import os
from pathlib import Path

LEAST_ROOM = 64 << 10


def unwritable(path: str) -> str | None:
    """Why nothing can be written at a local path; None if nothing speaks against it."""
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        disk = os.statvfs(place)
    except OSError:
        return None  # whoever writes there finds out what is wrong, and says so
    if disk.f_flag & os.ST_RDONLY:
        return f"the disk of {path} may only be read"
    room = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    # Some network disks count nothing, and say that they have nothing of it.
    if (disk.f_blocks and room * disk.f_frsize < LEAST_ROOM) or (disk.f_files and not disk.f_ffree):
        return f"the disk of {path} is full"
    return None


def may_only_be_read(database: Path) -> bool:
    """Whether a SQLite database has to be read as it lies, since whoever asks may write neither it nor beside it.

    To share a database with its writers, SQLite makes files beside it. Where those are there, a writer is at work, and they
    can be read too. Where they are not, and cannot be made, nobody is: the file is whole as it lies.
    """
    if not database.exists() or os.access(database.parent, os.W_OK):
        return False
    return not database.with_name(f"{database.name}-wal").exists()
