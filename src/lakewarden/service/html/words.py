"""How the pages say what the report does not: how long ago, how long, and a name within an address."""

from __future__ import annotations

from datetime import datetime, timedelta

import humanize
from markupsafe import Markup

from lakewarden.reports.page.text import shown

JUST_NOW = timedelta(seconds=5)


def relative(at: datetime, now: datetime) -> str:
    """`3 hours ago`, `in 20 minutes`, `now`."""
    apart = now - at
    if abs(apart) < JUST_NOW:
        return "now"
    words = humanize.naturaldelta(abs(apart))
    return f"{words} ago" if apart > timedelta() else f"in {words}"


def lasted(begin: datetime, end: datetime | None) -> str:
    """`2 minutes and 3 seconds`; under a second is not nothing."""
    if end is None:
        return ""
    if end - begin < timedelta(seconds=1):
        return "under a second"
    return humanize.precisedelta(end - begin, suppress=["months", "years"], format="%d")


def dotted(name: str) -> Markup:
    """A table's name that a narrow place may break after a dot, and nowhere else as long as it fits."""
    return Markup(".<wbr>").join(shown(name).split("."))


def key(name: str) -> Markup:
    """The name of a setting that a narrow place may break after an underscore."""
    return Markup("_<wbr>").join(shown(name).split("_"))
