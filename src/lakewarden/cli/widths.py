"""How wide a text is on a terminal, and how a sentence is laid out in lines."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TextIO

USUAL = 80
# A gap and what follows it: `quoted words`, a command up to the end of its line, or a word.
_WORDS = re.compile(r"( *)(`[^`]*`\S*|(?<=: )lakewarden [a-z].*$|\S+)")


def columns_of(stream: TextIO) -> int:
    """The columns of the terminal behind a stream."""
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL
    except (OSError, ValueError):
        return USUAL


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def padded(text: str, width: int, right: bool) -> str:
    gap = " " * (width - width_of(text))
    return gap + text if right else text + gap


def wrapped(text: str, width: int) -> list[str]:
    """A sentence in lines of that width, broken at spaces. A command, or what is `quoted`, stays in one piece."""
    if width_of(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    lines = [""]
    for gap, word in _WORDS.findall(text):
        if lines[-1].strip() and width_of(lines[-1] + gap + word) > width:
            lines.append(f"{indent}  {word}")
        else:
            lines[-1] += gap + word
    return lines
