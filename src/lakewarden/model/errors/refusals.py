"""Refusals and brakes that no single error raises, by code."""

from __future__ import annotations

# Refusals that are found by looking at the whole lake, not by one failing read.
DOUBT_REFUSALS = {
    "LW-DOUBT-002": "a table that was seen before is empty or older now",
}
ROOT_REFUSALS = {
    "LW-ROOT-001": "a table that touches this root could not be read",
    "LW-ROOT-002": "the root holds metadata of a table that no configured catalog knows",
    "LW-ROOT-003": "the root holds two diverging histories of one table",
    "LW-ROOT-004": "the root holds another table format's files",
    "LW-ROOT-005": "the root holds a symbolic link",
    "LW-ROOT-006": "another Lakewarden deployment owns this bucket",
    "LW-ROOT-007": "the root is a bucket's or file system's top, or lies in Lakewarden's own state",
}
BRAKE_REFUSALS = {
    "LW-BRAKE-001": "reachable-empty",
    "LW-BRAKE-002": "live-missing",
    "LW-BRAKE-003": "nothing-matched",
    "LW-BRAKE-004": "orphan-share",
    "LW-BRAKE-005": "orphan-cap",
    "LW-BRAKE-006": "reachable-shrank",
    "LW-BRAKE-007": "damaged-table",
    "LW-BRAKE-008": "drop-share",
    "LW-BRAKE-009": "table-emptied",
    "LW-BRAKE-010": "branch-share",
}
