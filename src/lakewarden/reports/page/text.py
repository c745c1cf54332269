"""How values are written on a page: numbers, sizes, shares, instants, and text that others wrote."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import humanize

LONGEST = 400  # characters of one text; a name or a message beyond that is cut, and says so


def size(count: float) -> str:
    """Bytes as people read them: `31.8 GiB`."""
    return humanize.naturalsize(count, binary=True, format="%.1f").replace(" Bytes", " B").replace(" Byte", " B")


def number(count: int) -> str:
    return f"{count:,}"


def plural(count: int, one: str, several: str | None = None) -> str:
    """`1 table`, `2 tables`."""
    return f"{number(count)} {one if count == 1 else several or one + 's'}"


def percent(share: float | None) -> str:
    """A share as people read it; a little is not nothing."""
    if share is None:
        return "unknown"
    return "under 1%" if 0 < share < 0.01 else f"{share:.0%}"


def instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def sentence(words: str) -> str:
    """Words as a sentence."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def shown(value: Any) -> Any:
    """Text that cannot steer a page: what is not printable (controls, marks that turn the direction) is spelled out."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    text = value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({number(len(value))} characters)"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
