"""Whether a file is still the one that was listed."""

from __future__ import annotations

import os
import stat
from datetime import datetime

from lakewarden.model.ports import JournalFile, Stat
from lakewarden.storage.posix import etag_of, modified_of


def same_tag(one: str, other: str) -> bool:
    """Tags are quoted by some calls and bare in others."""
    return one.strip('"') == other.strip('"')


def same_moment(one: datetime | None, other: datetime | None) -> bool:
    """Whether two modification times are one: a listing may say it to the millisecond, a header says it to the second."""
    if one is None or other is None:
        return False
    if one == other:
        return True
    in_seconds = not one.microsecond or not other.microsecond
    return in_seconds and one.replace(microsecond=0) == other.replace(microsecond=0)


def differs(listed: JournalFile, found: Stat | os.stat_result) -> bool:
    """True unless size, tag and modification time are the listed ones.

    The tag alone does not say it: an object that was written again with the same bytes has the same tag, is seconds old,
    and belongs to somebody.
    """
    if isinstance(found, os.stat_result):
        if not stat.S_ISREG(found.st_mode):
            return True  # a directory, link or device stands where a file was listed
        if found.st_size != listed.size:
            return True
        if listed.etag:
            return listed.etag != etag_of(found)
        return listed.modified is None or listed.modified != modified_of(found)
    if found.size != listed.size or not same_moment(listed.modified, found.modified):
        return True
    return bool(listed.etag and found.etag) and not same_tag(str(listed.etag), str(found.etag))
