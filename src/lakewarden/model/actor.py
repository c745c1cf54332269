"""Who asked for a run, why, and under which ticket: recorded with everything it changes."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from enum import StrEnum


class Trigger(StrEnum):
    MANUAL = "manual"
    SCHEDULE = "schedule"
    INCIDENT_RESPONSE = "incident-response"


@dataclass(frozen=True, slots=True)
class Actor:
    """The person or schedule behind a run."""

    operator: str
    worker: str
    trigger: Trigger = Trigger.MANUAL
    ticket: str | None = None


def person_of(operator: str) -> str:
    """Who stands behind a name, as in the address of a mailbox: `ada+ci` and `Ada` are ada."""
    name, at, domain = operator.casefold().partition("@")
    return f"{name.partition('+')[0]}{at}{domain}"


def os_user() -> str:
    """The operating system's user: whoever asks when nobody is named."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"  # A container's user often has no name.
