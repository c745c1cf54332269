"""Where words and data go: stdout or stderr, with colour and a width on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

import humanize

from lakewarden.cli.command_thread import check_wanted
from lakewarden.cli.widths import columns_of, padded, width_of, wrapped
from lakewarden.model.big_numbers import with_texts
from lakewarden.model.redaction import redact


def printable(text: Any) -> str:
    """Text that cannot steer a terminal: names in a lake are written by others."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def size(count: int) -> str:
    return humanize.naturalsize(count, binary=True, format="%.1f")


def number(count: int) -> str:
    return humanize.intcomma(count)


class Screen:
    """One output stream. On a terminal it has colour, unless NO_COLOR, and a width; elsewhere lines are as long as they are.

    What somebody may want to copy (an address, an id, a command) is never cut, and never split over two lines.
    """

    def __init__(self, stream: TextIO | None = None, terminal: bool | None = None, width: int | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.terminal = self._stream.isatty() if terminal is None else terminal
        self._width = (width or columns_of(self._stream)) if self.terminal else None

    def can_print(self, text: str) -> bool:
        """Whether the stream can carry these characters."""
        try:
            text.encode(getattr(self._stream, "encoding", None) or "utf-8")
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def line(self, text: str = "", style: str | None = None) -> None:
        text = printable(text).rstrip()
        for part in wrapped(text, self._width) if self._width else (text,):
            self._write(part, style)

    def grid(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        right: frozenset[int] = frozenset(),
        drop: Sequence[int] = (),
    ) -> None:
        """Rows under headings; the columns named in `right` are numbers.

        On a terminal that is too narrow the columns named in `drop` are left out, the first one first. Where that is
        not enough each row becomes a paragraph.
        """
        cells = [[printable(one_line(cell)) if _said(cell) else "" for cell in row] for row in rows]
        widths = [max(map(width_of, column)) for column in zip(columns, *cells, strict=True)]
        shown = [*range(len(columns))]
        for column in drop:
            if self._fits([widths[i] for i in shown]):
                break
            shown = [i for i in shown if i != column]
        if not self._fits([widths[i] for i in shown]):
            self._paragraphs(columns, cells)
            return
        for row in (columns, *cells):
            line = "  ".join(padded(row[i], widths[i], i in right) for i in shown)
            self._write(line.rstrip(), "bold" if row is columns else None)

    def _fits(self, widths: Sequence[int]) -> bool:
        return self._width is None or sum(widths) + 2 * (len(widths) - 1) <= self._width

    def _paragraphs(self, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        """A row's first cell on a line of its own, and below it the others, each with its heading."""
        for row in cells:
            self._write(row[0])
            for name, cell in zip(columns[1:], row[1:], strict=True):
                if cell:
                    self._write(f"  {name}: {cell}")

    def _write(self, text: str, style: str | None = None) -> None:
        """One line, whole."""
        check_wanted()
        if self.terminal and style:
            self._console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)
        else:
            self._stream.write(f"{text}\n")

    def facts(self, facts: Mapping[str, Any], indent: str = "") -> None:
        """Names and values, nested ones indented, in the order given. What is empty is left out."""
        for name, value in facts.items():
            label = f"{indent}{str(name).replace('_', ' ')}"
            if isinstance(value, Mapping):
                if not any(map(_said, value.values())):
                    continue
                self.line(f"{label}:")
                self.facts(value, indent + "  ")
            elif isinstance(value, list | tuple) and value:
                self.line(f"{label}:")
                for item in value:
                    self.line(f"{indent}  - {one_line(item)}")
            elif _said(value):
                self.line(f"{label}: {one_line(value)}")

    def document(self, value: Any) -> None:
        """One JSON document, with a text beside each number that its reader may round."""
        check_wanted()
        self._stream.write(json.dumps(with_texts(value), ensure_ascii=False, indent=2, default=str) + "\n")

    def _console(self) -> Any:
        from rich.console import Console

        return Console(file=self._stream, force_terminal=True)


def one_line(value: Any) -> str:
    """A value of any shape as a person reads it, on one line."""
    if isinstance(value, Mapping):
        return "  ".join(f"{key}={one_line(item)}" for key, item in value.items() if _said(item))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not _said(value):
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(one_line, value))
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _said(value: Any) -> bool:
    """Whether there is anything to show: zero and `no` are something."""
    return value is not None and value not in ("", [], (), {})


def show_error(code: str, message: str, hint: str, as_json: bool) -> None:
    """An error where its reader looks: a document on stdout for programs, words on stderr for people."""
    message, hint = redact(message), redact(hint)
    if as_json:
        Screen().document({"error": {"code": code, "message": message, "hint": hint}})
        return
    talk = Screen(sys.stderr)
    first, *others = message.splitlines() or [""]
    talk.line(f"{code} {first}", style="bold red")
    for line in (*others, *f"Next: {hint}".splitlines()):
        talk.line(f"  {line}")
