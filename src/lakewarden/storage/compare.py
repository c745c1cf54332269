"""Whether a file is still the one that was listed."""

from __future__ import annotations

import os
import stat

from lakewarden.model.ports import JournalFile, Stat
from lakewarden.storage.posix import etag_of, modified_of


def same_tag(one: str, other: str) -> bool:
    """Tags are quoted by some calls and bare in others."""
    return one.strip('"') == other.strip('"')


def differs(listed: JournalFile, found: Stat | os.stat_result) -> bool:
    """True unless the tag is the listed one; without a tag, unless size and modification time are."""
    if isinstance(found, os.stat_result):
        if not stat.S_ISREG(found.st_mode):
            return True  # a directory, link or device stands where a file was listed
        if found.st_size != listed.size:
            return True
        if listed.etag:
            return listed.etag != etag_of(found)
        return listed.modified is None or listed.modified != modified_of(found)
    if found.size != listed.size:
        return True
    if listed.etag and found.etag:
        return not same_tag(listed.etag, found.etag)
    return listed.modified is None or listed.modified != found.modified
