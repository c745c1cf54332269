"""One command as somebody reads it: on a terminal of some width, through a pipe, or as a program that asked for JSON."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TextIO

import pytest

from lakewarden.cli.main import main
from tests.golden.lake import GoldenLake
from tests.golden.normal import Normal

STDERR = "[stderr]"
QUESTION = b"[y/N]: "
END_OF_INPUT = b"\x04"


class Form(StrEnum):
    """How a command's output is read. The value is the ending of the expected file."""

    JSON = "json"
    NARROW = "80.txt"
    WIDE = "120.txt"
    PIPED = "piped.txt"

    @property
    def width(self) -> int | None:
        return {Form.NARROW: 80, Form.WIDE: 120}.get(self)


@dataclass(frozen=True)
class Printed:
    """What one command printed and returned. `text` is what is kept; `document` is its JSON, as it was."""

    text: str
    code: int
    document: Any = None


class Pipe(io.StringIO):
    """What is no terminal."""


@contextmanager
def pseudo_terminal(columns: int, answer: str) -> Iterator[tuple[TextIO, TextIO, list[bytes]]]:
    """A terminal of so many columns, with somebody who answers a question: its input, its output, what came out of it."""
    master, slave = os.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    termios.tcsetwinsize(slave, (24, columns))
    seen: list[bytes] = []

    def read() -> None:
        typed = False
        # The last process that has the terminal open closes it, and reading ends with an error.
        with suppress(OSError):
            while found := os.read(master, 65536):
                seen.append(found)
                if not typed and QUESTION in b"".join(seen):
                    typed = True
                    os.write(master, answer.encode() or END_OF_INPUT)

    reader = threading.Thread(target=read)
    reader.start()
    with open(os.dup(slave), encoding="utf-8") as typed, open(slave, "w", encoding="utf-8") as shown:
        yield typed, shown, seen
    reader.join()
    os.close(master)


def printed(lake: GoldenLake, words: Sequence[str], form: Form, answer: str = "") -> Printed:
    """Run a command in this process, in the lake's directory; `answer` is what a person types."""
    normal = Normal(str(lake.base))
    shown = normal.text(" ".join(["$ lakewarden", *words]))
    if form.width is not None:
        with pseudo_terminal(form.width, answer) as (typed, screen, seen):
            code = _run(lake, words, form.width, typed, screen, screen)
        text = b"".join(seen).decode()
        return Printed(_whole(shown, normal.text(on_screen(text)), "", code), code)
    out, err = Pipe(), Pipe()
    if form is Form.JSON:
        code = _run(lake, [*words, "--output", "json"], 80, Pipe(), out, err)
        document = json.loads(out.getvalue())
        said = json.dumps(normal.value(document), ensure_ascii=False, indent=2)
        return Printed(f"{said}\n", code, document)
    code = _run(lake, words, 80, Pipe(), out, err)
    return Printed(_whole(shown, normal.text(out.getvalue()), normal.text(err.getvalue()), code), code)


def _run(lake: GoldenLake, words: Sequence[str], columns: int, typed: TextIO, out: TextIO, err: TextIO) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(lake.base)
        patch.delenv("FORCE_COLOR", raising=False)
        for name, value in {"COLUMNS": str(columns), "LINES": "24", "TERM": "xterm-256color", "LOGNAME": "ana"}.items():
            patch.setenv(name, value)
        patch.setenv("NO_COLOR", "1")
        for name, stream in {"stdin": typed, "stdout": out, "stderr": err}.items():
            patch.setattr(sys, name, stream)
        return main(list(words))


def _whole(command: str, out: str, err: str, code: int) -> str:
    """The command, what it printed, and how it ended."""
    parts = [command, out.rstrip("\n"), f"{STDERR}\n{err.rstrip()}" if err.strip() else "", f"[exit {code}]"]
    return "\n".join(part for part in parts if part) + "\n"


_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])")


def on_screen(text: str) -> str:
    """What is left on a terminal when the command has ended. Lines are not cut at the edge: a terminal wraps them."""
    lines, row, column, at = [""], 0, 0, 0
    for found in [*_CONTROL.finditer(text), None]:
        piece = text[at : found.start() if found else None]
        if piece:
            before = lines[row].ljust(column)
            lines[row] = before[:column] + piece + before[column + len(piece) :]
            column += len(piece)
        if found is None:
            break
        at = found.end()
        count, kind = found[1], found[3] or found[2]
        if kind == "\n":
            row, column = row + 1, 0
            lines.extend([""] * (row + 1 - len(lines)))
        elif kind == "\r":
            column = 0
        elif kind == "A":
            row = max(0, row - int(count or 1))
        elif kind == "K":
            lines[row] = "" if count == "2" else lines[row][:column]
        elif kind == "J":
            lines[row + 1 :], lines[row] = [], lines[row][:column]
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"
