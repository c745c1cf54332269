"""The options that commands share, each said once."""

from __future__ import annotations

import getpass
import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lakewarden.jobs.registry import JOBS
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.verdict import Brake

if TYPE_CHECKING:
    from lakewarden.warden import Warden


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


Config = Annotated[str | None, typer.Option("--config", metavar="FILE", help="Configuration; default lakewarden.toml.")]
OutputForm = Annotated[Output, typer.Option("--output", help="Words for people or one JSON document.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Debug log on stderr, and tracebacks.")]
Select = Annotated[list[str] | None, typer.Option("--select", metavar="GLOB", help="Only change tables that match.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Leave tables that match alone.")]
Operator = Annotated[str | None, typer.Option("--operator", metavar="NAME", help="Who does this; default the OS user.")]
Ticket = Annotated[str | None, typer.Option("--ticket", metavar="ID", help="The ticket behind it, for the audit.")]
TriggerName = Annotated[Trigger, typer.Option("--trigger", help="What set it off.")]
_JOBS = [f"{spec.name} (short: {spec.aliases[0]})" if spec.aliases else str(spec.name) for spec in JOBS.values()]
JobName = Annotated[
    str,
    typer.Argument(metavar="JOB", help=f"One of {', '.join(_JOBS)}."),
]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        help="How long to wait for another worker's lease; default: until it is renewed, or has run out.",
    ),
]
PlanDir = Annotated[str, typer.Argument(metavar="PLAN_DIR", help="A plan's directory.")]
Brakes = Annotated[
    list[Brake] | None, typer.Option("--override-brake", help="Go on although this brake was pulled, for this plan.")
]


def actor_of(warden: Warden, operator: str | None, trigger: Trigger, ticket: str | None) -> Actor:
    """Who is behind this command."""
    return Actor(operator or _os_user(), warden.worker, trigger, ticket)


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"  # A container's user often has no name.
