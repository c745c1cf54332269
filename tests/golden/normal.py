"""What differs from run to run, replaced by tokens: ids, addresses, times that were measured, small sizes.

A token is as wide as what it stands for, but for durations: a slow machine takes more digits.
"""

from __future__ import annotations

import re
from typing import Any

from tests.golden.lake import SHOWN_AS

_IDS = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}\b"
    r"|\b[0-9]{17,19}\b"
    r"|(?<=[a-z]-)[0-9a-f]{8}(?=/)"
)
# Of these the metadata files alone are small, and their length depends on the ids in them.
_SMALL_SIZES = re.compile(r"\b\d*[1-9.]\d*(?= (?:KiB|Bytes)\b)")
_ESTIMATES = re.compile(r"(?<=  )\d+:\d\d:\d\d\b")
# A step that takes long is told without a decimal, at the end of its line.
_DURATIONS = re.compile(r"(?m)\b\d+\.\d s\b|(?<=\S  )\d+ (?:s|min)$")
# Spark is up before the suite begins. The thread that asks for it says so at any moment, also after its command has ended.
_BESIDE = re.compile(r"(?m)^[✓✗…] .*start Spark.*\n")
_JAVA = re.compile(r"Java \d+, \S+?java\b")
_SIZES = ("bytes", "size")
_SNAPSHOT = re.compile(r"[0-9]{17,19}")
MASK = "#"
# How long something took, a file's number on its disk, when its writer made it, and where.
_OF_THE_MACHINE = ("seconds", "etag", "newest_ms", "load_ms", "writer.host")
_MIB = 1 << 20


class Normal:
    """One output's tokens: the same id is the same token wherever the output names it."""

    def __init__(self, base: str, digit: str = MASK) -> None:
        self._base = base
        self._digit = digit
        self._ids: dict[str, str] = {}

    def text(self, text: str) -> str:
        text = _BESIDE.sub("", text.replace(self._base, SHOWN_AS))
        text = _IDS.sub(self._id, text)
        text = _SMALL_SIZES.sub(self._measured, text)
        text = _JAVA.sub("Java 17, /usr/bin/java", text)
        if self._digit != MASK:
            return text
        return _DURATIONS.sub(f"{MASK}.{MASK} s", _ESTIMATES.sub(self._measured, text))

    def _measured(self, found: re.Match[str]) -> str:
        return re.sub(r"\d", self._digit, found[0])

    def value(self, value: Any, key: str = "") -> Any:
        """The same for a JSON document. Sizes are told as people read them."""
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(item, name) for name, item in value.items()}
        if isinstance(value, list) and key == "parts":
            # Their names are Spark's, and so is their order.
            value = sorted(value, key=lambda part: int(part["rows"]))
        if isinstance(value, list):
            items = [self.value(item, key) for item in value]
            # Snapshots in the order of their ids are in any order.
            return sorted(items) if items and all(_SNAPSHOT.fullmatch(str(item)) for item in items) else items
        if key in _OF_THE_MACHINE and value is not None:
            return MASK
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if key in _SIZES or key.endswith("_bytes"):
                return f"{value / _MIB:.1f} MiB" if value >= _MIB // 4 else "below 0.3 MiB" if value else 0
            if value >= 10**16:
                return int(self.text(str(value)))
        return value

    def _id(self, found: re.Match[str]) -> str:
        """A token that says which id it is: `11111111-1111-…` is the first of its output."""
        text = found[0]
        if text not in self._ids:
            number = len(self._ids) + 1
            digits = f"{number:02}" if number > 9 else str(number)
            repeated = digits * len(text)
            self._ids[text] = "".join(
                "-" if character == "-" else repeated[place] for place, character in enumerate(text)
            )
        return self._ids[text]
