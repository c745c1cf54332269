"""`abandon`, `forget`: an operator's word that a table is not needed, or not as it was. Asked for, recorded, nothing deleted."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakewarden.cli import worker
from lakewarden.cli.asking import ask, check_somebody_is_there
from lakewarden.cli.options import Record, Shared
from lakewarden.cli.screen import Screen, number
from lakewarden.cli.signals import finishing_first
from lakewarden.cli.to_type import to_type
from lakewarden.model.errors import Exit

if TYPE_CHECKING:
    from lakewarden.steps.observe.given_up import GivenUp

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the record.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
AGAIN = "Run the command on a terminal and look at what it shows, or add --yes."


def abandon(
    shared: Shared,
    record: Record,
    table_uuid: Annotated[str, typer.Argument(metavar="TABLE_UUID", help="A table that no catalog lists any more.")],
    reason: Reason = "",
    yes: Yes = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back: protect the table again.")] = False,
) -> int:
    """Declare that a table is gone for good, so that its metadata no longer holds its root back."""
    if undo:
        return _take_back(shared, record, table_uuid, reason)
    check_somebody_is_there(yes, "abandon takes protection away", AGAIN)
    warden = worker.open_worker(shared)
    if not yes:
        given_up = warden.would_abandon(table_uuid)
        ask(partial(show_given_up, given_up=given_up), f"Abandon table {table_uuid}?", AGAIN)
    with finishing_first():
        given_up = warden.abandon(table_uuid, reason, record.actor(warden))
    screen = Screen()
    if shared.as_json:
        screen.document({"abandoned": table_uuid, "reason": reason, **given_up.as_json()})
        return Exit.DONE
    if yes:
        show_given_up(screen, given_up)
    screen.line(
        f"Table {table_uuid} is abandoned. Nothing has been deleted; from the next plan on, its metadata protects "
        f"nothing any more. To take it back: {to_type(f'abandon {shlex.quote(table_uuid)} --undo', shared.config)}"
    )
    return Exit.DONE


def _take_back(shared: Shared, record: Record, table_uuid: str, reason: str) -> int:
    warden = worker.open_worker(shared)
    with finishing_first():
        warden.take_back(table_uuid, reason, record.actor(warden))
    if shared.as_json:
        Screen().document({"taken_back": table_uuid, "reason": reason})
    else:
        Screen().line(
            f"Table {table_uuid} is no longer abandoned: what is left of it is protected from the next plan on."
        )
    return Exit.DONE


def show_given_up(screen: Screen, given_up: GivenUp) -> None:
    """What loses its protection with a table."""
    names = f", seen as {', '.join(given_up.names)}," if given_up.names else ""
    screen.line(f"Table {given_up.uuid}{names} is in no configured catalog. For its sake these are left alone now:")
    for root, count in given_up.metadata.items():
        screen.line(f"  {root}   {number(count)} metadata file{'s' if count != 1 else ''} of it")
    if given_up.example:
        screen.line(f"  such as {given_up.example}")
    for place in given_up.places:
        if place not in given_up.metadata:
            screen.line(f"  {place}   it had files there")
    for root in given_up.unlisted:
        screen.line(f"  {root}   could not be listed; there may be more of it", style="yellow")


def forget(
    shared: Shared,
    record: Record,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table that was dropped, emptied or set back.")],
    reason: Reason = "",
    yes: Yes = False,
) -> int:
    """Declare that less can be seen of a table on purpose, so that what it once touched is no longer held back."""
    check_somebody_is_there(yes, "forget takes protection away", AGAIN)
    warden = worker.open_worker(shared)
    if not yes:
        held = warden.would_forget(table)
        ask(partial(_show_held, table=table, places=held), f"Forget what was seen of {table}?", AGAIN)
    with finishing_first():
        places = warden.forget(table, reason, record.actor(warden))
    screen = Screen()
    if shared.as_json:
        screen.document({"forgotten": table, "places": places, "reason": reason})
        return Exit.DONE
    screen.line(
        f"What was seen of {table} is forgotten. Nothing has been deleted; the next plan protects only what the table "
        "needs by then. It was held to have files under:"
    )
    for place in places:
        screen.line(f"  {place}")
    return Exit.DONE


def _show_held(screen: Screen, table: str, places: list[str]) -> None:
    screen.line(f"{table} was seen before, and these directories may be left alone for its sake:")
    for place in places:
        screen.line(f"  {place}")
