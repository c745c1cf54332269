"""`config check`: whether everything that a configuration names is there and answers, a line each."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from typing import TYPE_CHECKING, Annotated

import typer

from lakewarden.cli import worker
from lakewarden.cli.options import Shared, command_group
from lakewarden.cli.screen import Screen
from lakewarden.model.errors import ConfigError

if TYPE_CHECKING:
    from lakewarden.reports.check import Answer

config = command_group("Whether the configuration works.")

MARKS = {"ok": "✓", "doubtful": "!", "failed": "✗", "skipped": "-"}
STYLES = {"ok": "green", "doubtful": "yellow", "failed": "bold red", "skipped": "dim"}
TURNING = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@config.command()
def check(
    shared: Shared,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not start Spark, which takes seconds.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long each part but Spark may take.")
    ] = 15.0,
) -> int:
    """Ask every catalog, store, the state, Java and Spark, and say how to mend what is wrong. Writes a probe in the state."""
    from lakewarden.reports.check import as_json, exit_code

    screen, answers = Screen(), []
    steered = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    spinner = Spinner(steered and not (shared.as_json or shared.quiet))
    for answer in _answers(shared, not no_spark, timeout, spinner):
        answers.append(answer)
        if not shared.as_json:
            spinner.clear()
            show(screen, answer)
    if shared.as_json:
        screen.document(as_json(answers))
    else:
        screen.line(summary(answers))
    code = exit_code(answers)
    if any(answer.unanswered for answer in answers):
        leave(code)
    return code


def _answers(shared: Shared, spark: bool, timeout: float, spinner: Spinner) -> Iterator[Answer]:
    """Every part's answer; of a configuration that cannot be read, the one line that says why."""
    from lakewarden.reports.check import failed

    try:
        warden = worker.open_worker(shared)
    except ConfigError as error:
        yield failed("configuration", error)
        return
    yield from warden.check(spark=spark, timeout=timeout, waiting=spinner.turn)


def show(screen: Screen, answer: Answer) -> None:
    first, *others = answer.found.splitlines() or [""]
    code = f"{answer.code} " if answer.code else ""
    screen.line(f"{MARKS[answer.status]} {answer.part}: {code}{first}", style=STYLES[answer.status])
    for line in others:
        screen.line(f"    {line}")
    for place, line in enumerate(answer.hint.splitlines()):
        screen.line(f"    {'next: ' if place == 0 else ''}{line}")


def summary(answers: Sequence[Answer]) -> str:
    """The last line: whether the deployment works, and if not, how many parts of it do not."""
    wrong = sum(answer.status == "failed" for answer in answers)
    if wrong:
        return f"{wrong} of {len(answers)} failed."
    left_out = [answer.part for answer in answers if answer.status == "skipped"]
    tried = f"Everything that was tried works; not tried: {', '.join(left_out)}." if left_out else "Everything works."
    doubtful = sum(answer.status == "doubtful" for answer in answers)
    return f"{tried} {doubtful} may not be what was meant: see `!` above." if doubtful else tried


def leave(code: int) -> None:
    """End although a library's thread still waits for a part that does not answer: Python itself would wait for it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


class Spinner:
    """On a terminal, one line on stderr with what is waited for; nothing elsewhere."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._faces = cycle(TURNING)
        self._since = time.monotonic()

    def turn(self, parts: Sequence[str]) -> None:
        if self._terminal:
            waited = time.monotonic() - self._since
            text = f"{next(self._faces)} {waited:.0f} s, waiting for {', '.join(parts)}"
            sys.stderr.write(f"\r\x1b[2K{text[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
