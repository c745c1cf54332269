"""`leases`, `freeze`, `unfreeze`: who may work now."""

from __future__ import annotations

from typing import Annotated

import typer

from lakewarden.cli import worker
from lakewarden.cli.options import Config, Operator, Output, OutputForm, Ticket, TriggerName, Verbose, actor_of
from lakewarden.cli.screen import Screen
from lakewarden.model.actor import Trigger
from lakewarden.model.errors import Exit, UsageError


def leases(
    release: Annotated[str | None, typer.Option("--release", metavar="KEY", help="Take this lease away.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept in the journal.")] = None,
    operator: Operator = None,
    ticket: Ticket = None,
    trigger: TriggerName = Trigger.MANUAL,
    config: Config = None,
    output: OutputForm = Output.TEXT,
    verbose: Verbose = False,
) -> int:
    """List the leases, or release one that its holder left behind."""
    if release is not None and not reason:
        raise UsageError("--release needs --reason; no lease was released")
    warden = worker.open_worker(config, verbose)
    screen = Screen()
    if release is not None and reason:
        warden.release_lease(release, reason, actor_of(warden, operator, trigger, ticket))
        _say(screen, output, {"released": release, "reason": reason}, f"Lease {release} is released.")
        return Exit.DONE
    held = [dict(lease) for lease in warden.leases()]
    if output is Output.JSON:
        screen.document({"leases": held})
    elif not held:
        screen.line("No leases are held.")
    else:
        columns = list(held[0])
        screen.grid([name.replace("_", " ") for name in columns], [[lease.get(c) for c in columns] for lease in held])
    return Exit.DONE


def freeze(
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown to whoever is stopped.")] = "",
    operator: Operator = None,
    ticket: Ticket = None,
    trigger: TriggerName = Trigger.MANUAL,
    config: Config = None,
    output: OutputForm = Output.TEXT,
    verbose: Verbose = False,
) -> int:
    """Stop every worker of this deployment before its next batch."""
    warden = worker.open_worker(config, verbose)
    warden.freeze(actor_of(warden, operator, trigger, ticket), reason)
    _say(
        Screen(),
        output,
        {"frozen": True, "reason": reason},
        "Frozen: no worker starts another batch until `lakewarden unfreeze`.",
    )
    return Exit.DONE


def unfreeze(
    operator: Operator = None,
    ticket: Ticket = None,
    trigger: TriggerName = Trigger.MANUAL,
    config: Config = None,
    output: OutputForm = Output.TEXT,
    verbose: Verbose = False,
) -> int:
    """Let the workers go on."""
    warden = worker.open_worker(config, verbose)
    warden.unfreeze(actor_of(warden, operator, trigger, ticket))
    _say(Screen(), output, {"frozen": False}, "Unfrozen: workers may go on.")
    return Exit.DONE


def _say(screen: Screen, output: Output, document: dict[str, object], words: str) -> None:
    screen.document(document) if output is Output.JSON else screen.line(words)
