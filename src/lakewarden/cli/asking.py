"""One question before something is changed that a person should see first. `--yes` is the answer of whoever is not there."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable

from lakewarden.cli.command_thread import check_wanted
from lakewarden.cli.screen import Screen
from lakewarden.model.errors import NeedsApprovalError

SECONDS_OF_A_WAIT = 0.05
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
    """The next line of the terminal. The wait is made of short ones, so that a command that is stopped can leave it."""
    ready = select.poll()  # select() knows no file beyond the first thousand that a process has open
    ready.register(sys.stdin, select.POLLIN)
    while not ready.poll(SECONDS_OF_A_WAIT * 1000):
        check_wanted()
    return sys.stdin.readline()
