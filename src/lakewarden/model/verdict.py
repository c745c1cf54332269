"""What Lakewarden says of one listed file, and what class of file it is."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """In the order in which they are tried; the first that fits is the file's verdict."""

    LIVE = "live"
    PENDING = "pending"
    PROTECTED = "protected"
    UNKNOWN_AGE = "unknown_age"
    TOO_NEW = "too_new"
    IN_FLIGHT = "in_flight"
    UNCONFIRMED = "unconfirmed"
    ORPHAN = "orphan"


class Kind(StrEnum):
    """The class of a file, as plans and pages count it."""

    DATA = "data"
    DELETE = "delete"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest_list"
    METADATA = "metadata"
    STATISTICS = "statistics"
    INDEX = "index"
    OTHER = "other"


class Outcome(StrEnum):
    """What became of one file of an applied batch."""

    DELETED = "deleted"
    QUARANTINED = "quarantined"
    ABSENT = "absent"
    CHANGED = "changed"
    FAILED = "failed"
    HIDDEN = "hidden"
    KEPT = "kept"


class Brake(StrEnum):
    """A sign that the plan itself may be wrong. Each can be overridden for one plan, by name."""

    REACHABLE_EMPTY = "reachable-empty"
    LIVE_MISSING = "live-missing"
    NOTHING_MATCHED = "nothing-matched"
    ORPHAN_SHARE = "orphan-share"
    ORPHAN_CAP = "orphan-cap"
    REACHABLE_SHRANK = "reachable-shrank"
    DAMAGED_TABLE = "damaged-table"
    DROP_SHARE = "drop-share"
    TABLE_EMPTIED = "table-emptied"
    BRANCH_SHARE = "branch-share"
