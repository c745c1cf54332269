"""Where words and data go: stdout or stderr, rich on a terminal and plain lines elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import humanize

from lakewarden.model.redaction import redact


def printable(text: Any) -> str:
    """Text that cannot steer a terminal: names in a lake are written by others."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def size(count: int) -> str:
    return humanize.naturalsize(count, binary=True, format="%.1f")


def number(count: int) -> str:
    return humanize.intcomma(count)


class Screen:
    """One output stream. Colour only on a terminal and without NO_COLOR."""

    def __init__(self, stream: TextIO | None = None, terminal: bool | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.terminal = self._stream.isatty() if terminal is None else terminal

    def line(self, text: str = "", style: str | None = None) -> None:
        text = printable(text).rstrip()
        if self.terminal and style:
            self._console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)
        else:
            self._stream.write(f"{text}\n")

    def grid(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], right: frozenset[int] = frozenset()) -> None:
        """Rows under headings; the columns named in `right` are numbers."""
        cells = [[printable("" if cell is None else cell) for cell in row] for row in rows]
        if self.terminal:
            from rich.table import Table
            from rich.text import Text

            table = Table(box=None, pad_edge=False, header_style="bold")
            for i, column in enumerate(columns):
                table.add_column(column, justify="right" if i in right else "left", overflow="fold")
            for row in cells:
                table.add_row(*(Text(cell) for cell in row))
            self._console().print(table)
            return
        widths = [max(len(row[i]) for row in [columns, *cells]) for i in range(len(columns))]
        for row in [list(columns), *cells]:
            padded = (
                c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
            )
            self.line("  ".join(padded))

    def facts(self, facts: Mapping[str, Any], indent: str = "") -> None:
        """Names and values, nested ones indented, in the order given."""
        for name, value in facts.items():
            label = f"{indent}{str(name).replace('_', ' ')}"
            if isinstance(value, Mapping) and value:
                self.line(f"{label}:")
                self.facts(value, indent + "  ")
            elif isinstance(value, list | tuple) and value:
                self.line(f"{label}:")
                for item in value:
                    self.line(f"{indent}  - {one_line(item)}")
            else:
                self.line(f"{label}: {one_line(value)}")

    def document(self, value: Any) -> None:
        """One JSON document."""
        self._stream.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")

    def _console(self) -> Any:
        from rich.console import Console

        return Console(file=self._stream, force_terminal=True)


def one_line(value: Any) -> str:
    """A value of any shape as a person reads it, on one line."""
    if isinstance(value, Mapping):
        return "  ".join(f"{key}={one_line(item)}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ([], (), {}):
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(one_line, value))
    return str(value)


def show_error(code: str, message: str, hint: str, as_json: bool) -> None:
    """An error where its reader looks: a document on stdout for programs, words on stderr for people."""
    message, hint = redact(message), redact(hint)
    if as_json:
        Screen().document({"error": {"code": code, "message": message, "hint": hint}})
        return
    talk = Screen(sys.stderr)
    first, *others = message.splitlines() or [""]
    talk.line(f"{code} {first}", style="bold red")
    for line in others:
        talk.line(f"  {line}")
    first, *others = hint.splitlines() or [""]
    talk.line(f"  Next: {first}")
    for line in others:
        talk.line(f"  {line}")
