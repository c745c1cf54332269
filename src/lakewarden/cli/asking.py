"""One question before something is changed that a person should see first. `--yes` is the answer of whoever is not there."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer
from typer.exceptions import Abort

from lakewarden.cli.screen import Screen
from lakewarden.model.errors import NeedsApprovalError


def check_somebody_is_there(yes: bool, what: str, hint: str | None = None) -> None:
    """Raise NeedsApprovalError where there is neither --yes nor a terminal to ask on. Before anything is opened or read."""
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NeedsApprovalError(f"{what} and nobody is here to ask; nothing was changed", hint=hint)


def ask(show: Callable[[Screen], None], question: str, hint: str | None = None) -> None:
    """Show what it is about and ask, on stderr. Raises NeedsApprovalError unless the answer is yes."""
    show(Screen(sys.stderr))
    try:
        answer = typer.confirm(question, default=False, err=True)
    except Abort:
        sys.stderr.write("\n")  # The question's own line has no end yet.
        raise NeedsApprovalError("the question was not answered; nothing was changed", hint=hint) from None
    if not answer:
        raise NeedsApprovalError("the answer was no; nothing was changed", hint=hint)
