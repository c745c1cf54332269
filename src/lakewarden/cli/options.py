"""The options that commands share, each said once.

How a command is added: a function in a `*_commands.py` that takes `shared: Shared` first, and `record: Record` next where
it may change something; then its own arguments and options. `main.py` names it. The options of the two sets
are then its options, before its name or after it, with `-h`, in the help and in the shell's completion:

    def runs(shared: Shared, limit: Annotated[int, typer.Option("--limit", min=1)] = 20) -> int:
        warden = worker.open_worker(shared)
        with reporting(shared) as progress: ...        # work that takes longer than a moment
        Screen().document(...) if shared.as_json else ...
        return Exit.DONE
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakewarden.cli.option_sets import Commands
from lakewarden.jobs.registry import JOBS
from lakewarden.model.actor import Actor, Trigger, os_user
from lakewarden.model.errors import UsageError
from lakewarden.model.verdict import Brake

if TYPE_CHECKING:
    from lakewarden.warden import Warden


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Shared:
    """What every command takes."""

    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="Configuration; default lakewarden.toml.")
    ] = None
    output: Annotated[Form, typer.Option("--output", help="Words for people or one JSON document.")] = Form.TEXT
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress: only warnings and errors on stderr.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="Debug log and Spark's own on stderr; tracebacks.")] = False
    log_format: Annotated[
        Form | None, typer.Option("--log-format", help="Log lines for people (default) or JSON, one a line.")
    ] = None

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise UsageError("--quiet and --verbose contradict each other; nothing was done")

    @property
    def as_json(self) -> bool:
        return self.output is Form.JSON

    @property
    def json_log(self) -> bool:
        """Whether programs read stderr."""
        return self.log_format is Form.JSON or (self.log_format is None and os.environ.get("LAKEWARDEN_LOG") == "json")


@dataclass(frozen=True, slots=True)
class Record:
    """Who is behind a command that may change something, for the audit."""

    operator: Annotated[
        str | None, typer.Option("--operator", metavar="NAME", help="Who does this; default the OS user.")
    ] = None
    ticket: Annotated[
        str | None, typer.Option("--ticket", metavar="ID", help="The ticket behind it, for the audit.")
    ] = None
    trigger: Annotated[Trigger, typer.Option("--trigger", help="What set it off.")] = Trigger.MANUAL

    def actor(self, warden: Warden) -> Actor:
        return Actor(self.operator or os_user(), warden.worker, self.trigger, self.ticket)


Select = Annotated[list[str] | None, typer.Option("--select", metavar="GLOB", help="Only change tables that match.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Leave tables that match alone.")]
_JOBS = [f"{spec.name} (short: {spec.aliases[0]})" if spec.aliases else str(spec.name) for spec in JOBS.values()]
_ALL = "all: every job that is enabled for at least one table, in the order of a day"


def _names(incomplete: str) -> list[tuple[str, str]]:
    """The jobs that a shell offers, each with a line on what it does."""
    named = [(name, spec.does) for spec in JOBS.values() for name in (str(spec.name), *spec.aliases)]
    return [(name, does) for name, does in (*named, ("all", _ALL[5:])) if name.startswith(incomplete)]


JobName = Annotated[
    str,
    typer.Argument(metavar="JOB", help=f"One of {', '.join(_JOBS)}; or {_ALL}.", autocompletion=_names),
]
JobNames = Annotated[
    list[str],
    typer.Argument(metavar="JOB", help=f"Any of {', '.join(_JOBS)}; or {_ALL}.", autocompletion=_names),
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 4 if any table was refused.")]
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
    list[Brake] | None,
    typer.Option(
        "--override-brake",
        metavar="NAME",
        help=f"Go on although this brake was pulled, for this plan: {', '.join(Brake)}.",
    ),
]


def command_group(help: str, **given: Any) -> Commands:
    """Commands under one name, with the shared options before the command's own name too."""
    group = Commands(help=help, **given)

    @group.callback()
    def _(shared: Shared) -> None: ...

    return group
