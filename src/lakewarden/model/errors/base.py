"""What every error has: a code, what happened, what was not done, what to do next; and the errors of a command's own words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

# How a hint begins that is meant for commands which change nothing. A run that is stopped half-way says what it changed
# instead (steps/apply/ending.py).
UNCHANGED = "Nothing was changed. "


_CLAIM = re.compile(r"(?:;|,) (?:and )?nothing (?:of it )?was (?:planned or )?(?:changed|touched|done|planned)$")


def without_claim(message: str, instead: str = "") -> str:
    """A message without its last words, where they say that nothing was done; with others `instead` of them."""
    return _CLAIM.sub(f"; {instead}" if instead else "", message)


class Exit(IntEnum):
    """What a command tells the shell. Any other code is a failure too."""

    DONE = 0
    FAILED = 1
    CHANGES_WAIT = 2
    PARTIAL = 3
    REFUSED = 4
    STALE = 5
    NOT_FOUND = 10
    LEASE_HELD = 11
    USAGE = 64
    INTERRUPTED = 130
    TERMINATED = 143


class LakewardenError(Exception):
    """Something that stops a command. Subclasses fix the code, the exit code and the next step."""

    code = "LW-CORE-001"
    exit_code = Exit.FAILED
    hint = "Run the command again with --verbose, and report the message if it stays."

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint
        if code is not None:
            self.code = code
        self.done = ""

    def after(self, done: str) -> None:
        """Say what was done before this happened: nothing in message or hint says any more that nothing was."""
        self.done = done
        self.message = without_claim(self.message)
        self.hint = f"{done} {self.hint.removeprefix(UNCHANGED)}"

    @property
    def says_unchanged(self) -> bool:
        """Whether message or hint say that nothing at all was changed: true only where nothing was begun."""
        return self.hint.startswith(UNCHANGED) or self.message != without_claim(self.message)

    def __str__(self) -> str:
        return f"{self.code} {self.message}"

    def refusal(self) -> Refusal:
        return Refusal(self.code, self.message, self.hint)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a table or root is left alone: a visible outcome, never a silent skip."""

    code: str
    message: str
    hint: str


class ConfigError(LakewardenError):
    code = "LW-CONF-001"
    exit_code = Exit.USAGE
    hint = "Correct the key in the configuration file; `lakewarden policy TABLE` shows where each value comes from."


class UsageError(LakewardenError):
    code = "LW-CONF-002"
    exit_code = Exit.USAGE
    hint = "See `lakewarden COMMAND --help`."


class ArgumentError(UsageError):
    """A method of the Python API was given something that it does not take; `argument` names it."""

    code = "LW-CONF-003"
    hint = "docs/python.md says what each method takes."

    def __init__(self, message: str, *, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class UnsafeGraceError(ConfigError):
    code = "LW-CONF-004"
    hint = "Raise it, or name each table to `lakewarden plan` with --unsafe-short-grace TABLE_UUID."


class NotFoundError(LakewardenError):
    code = "LW-CORE-010"
    exit_code = Exit.NOT_FOUND
    hint = "`lakewarden tables` lists what the configured catalogs hold; `lakewarden runs` lists the runs."
