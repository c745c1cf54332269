"""The worker's own scratch names: temporary files, decoded ones, register records and Spark's logs, never a listed file.

Removal here is outside the one door because nothing a table could own can match: each function checks
the exact name pattern that only this room writes, and refuses everything else.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from datetime import datetime

REGISTER_SUFFIX = ".register"
DECODER_PREFIX = "lakewarden-avro-"
TO_DECODE, DECODED, UNFINISHED = "in.avro", "out.arrow", "out.arrow.new"
_TEMPORARY = re.compile(r"^\.lakewarden-[0-9a-f]{16}\.tmp$")
_LOG = re.compile(r"^spark-\d{8}T\d{6}Z-\d+\.log$")
_RECORD = re.compile(r"^(\d{20}|boundary-\d{20})$")


def temporary_name() -> str:
    """A hidden name no table format writes and no listing takes for data."""
    return f".lakewarden-{secrets.token_hex(8)}.tmp"


def is_temporary(name: str) -> bool:
    return _TEMPORARY.match(name) is not None


def drop_temporary(path: str) -> None:
    """Remove a temporary file of ours. Leaving one behind is harmless, so failures are not raised."""
    if not is_temporary(os.path.basename(path)):
        raise ValueError(f"not a temporary name of ours: {path!r}")
    with contextlib.suppress(OSError):
        os.unlink(path)


def log_name(now: datetime) -> str:
    """The file that takes what the Spark of this process says."""
    return f"spark-{now:%Y%m%dT%H%M%SZ}-{os.getpid()}.log"


def drop_logs(directory: str, kept: int) -> None:
    """Remove all logs of ours in a directory but those that changed last. Failures are not raised: an old log harms nobody."""
    with contextlib.suppress(OSError):
        found = [entry for entry in os.scandir(directory) if _LOG.match(entry.name)]
        found.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime, reverse=True)
        for entry in found[kept:]:
            os.unlink(entry.path)


def drop_record(directory: str, name: str) -> None:
    """Remove one outdated record of a register. Leaving one behind is harmless: the boundary hides it."""
    if not directory.endswith(REGISTER_SUFFIX) or not _RECORD.match(name):
        raise ValueError(f"not a register record of ours: {directory!r} {name!r}")
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(directory, name))


def drop_decoder_directory(directory: str) -> None:
    """Remove a decoder's directory with the files it works on. One that cannot go holds memory, and harms nothing else."""
    if not os.path.basename(directory).startswith(DECODER_PREFIX):
        raise ValueError(f"not a decoder's directory: {directory!r}")
    for name in (TO_DECODE, DECODED, UNFINISHED):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(directory, name))
    with contextlib.suppress(OSError):
        os.rmdir(directory)
