"""One question before something is changed that a person should see first. `--yes` is the answer of whoever is not there."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable

from lakewarden.cli.screen import Screen
from lakewarden.model.errors import NeedsApprovalError

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}


def check_somebody_is_there(yes: bool, what: str, hint: str | None = None) -> None:
    """Raise NeedsApprovalError where there is neither --yes nor a terminal to ask on. Before anything is opened or read."""
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NeedsApprovalError(f"{what} and nobody is here to ask; nothing was changed", hint=hint)


def ask(show: Callable[[Screen], None], question: str, hint: str | None = None) -> None:
    """Show what it is about and ask, on stderr. Raises NeedsApprovalError unless the answer is yes."""
    show(Screen(sys.stderr))
    answer = answer_to(question)
    if answer is None:
        raise NeedsApprovalError("the question was not answered; nothing was changed", hint=hint)
    if not answer:
        raise NeedsApprovalError("the answer was no; nothing was changed", hint=hint)


def answer_to(question: str) -> bool | None:
    """Ask until the answer is yes or no; None where the terminal ends."""
    while True:
        sys.stderr.write(f"{question} [y/N]: ")
        sys.stderr.flush()
        line = _line_typed()
        if not line:
            sys.stderr.write("\n")  # The question's own line has no end yet.
            return None
        if (answer := _ANSWERS.get(line.strip().lower())) is not None:
            return answer


def _line_typed() -> str:
    """The next line of the terminal.

    A signal that comes after Python last looked for one and before the wait begins would be heard only at the next key;
    it is written to a pipe as well, and the wait ends for either. Python looks once more when the pipe is there: another
    thread may have taken a signal that came before.
    """
    heard, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told)
    try:
        select.select([], [], [], 0)
        while sys.stdin not in select.select([sys.stdin, heard], [], [])[0]:
            os.read(heard, 1)
        return sys.stdin.readline()
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)
