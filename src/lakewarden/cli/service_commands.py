"""`serve` and `token`: the service, and who may use it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakewarden.cli.options import Record, Shared, command_group
from lakewarden.cli.screen import Screen
from lakewarden.cli.signals import command, finishing_first
from lakewarden.model.actor import os_user
from lakewarden.model.errors import Exit
from lakewarden.model.service import Role

if TYPE_CHECKING:
    from lakewarden.ledger.tokens import Token, Tokens

token = command_group("Who may use the service.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")]


def serve(
    shared: Shared,
    host: Annotated[
        str | None, typer.Option("--host", metavar="H", help="Where to listen; default service.host.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="P", min=0, max=65535, help="The port; default service.port.")
    ] = None,
) -> int:
    """Serve pages, the REST API and metrics, and work on what is asked for and what is due."""
    from lakewarden.service.serve import serve as run

    return command().hand_over(
        lambda: run(shared.config, host=host, port=port, quiet=shared.quiet, verbose=shared.verbose)
    )


@token.command()
def create(
    shared: Shared,
    record: Record,
    name: Name,
    role: Annotated[Role, typer.Option("--role", help="What its holder may do.")],
    days: Annotated[
        float | None, typer.Option("--days", metavar="N", min=0.001, help="For how many days; default: until revoked.")
    ] = None,
) -> int:
    """Make a token. It is shown this once: only a hash of it is kept."""
    with finishing_first():
        plaintext = _tokens(shared).create(name, role, created_by=record.operator or os_user(), days=days)
    screen = Screen()
    if shared.as_json:
        screen.document({"name": name, "role": str(role), "token": plaintext})
        return Exit.DONE
    screen.line(plaintext)
    screen.line(f"This is the only time that the token of {name} ({role}) is shown.")
    return Exit.DONE


@token.command("list")
def list_tokens(shared: Shared) -> int:
    """List the tokens: names, roles, until when, last used."""
    found, screen = _tokens(shared).list(), Screen()
    if shared.as_json:
        screen.document({"tokens": [_facts(one) for one in found]})
    elif found:
        rows = [
            (one.name, str(one.role), _when(one.expires_at, "-"), _when(one.last_used_at), _state(one)) for one in found
        ]
        screen.grid(("name", "role", "until", "last used", "state"), rows, frozenset())
    else:
        screen.line("There is no token. lakewarden token create NAME --role viewer makes one.")
    return Exit.DONE


@token.command()
def revoke(shared: Shared, record: Record, name: Name) -> int:
    """Let a token open nothing any more, and end its sessions."""
    with finishing_first():
        found = _tokens(shared).revoke(name)
    screen = Screen()
    screen.document(_facts(found)) if shared.as_json else screen.line(f"The token of {name} opens nothing any more.")
    return Exit.DONE


def _tokens(shared: Shared) -> Tokens:
    from lakewarden.service.service import open_service

    return open_service(shared.config).ledger.tokens


def _facts(one: Token) -> dict[str, Any]:
    told = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(one).items()}
    return told | {"role": str(one.role)}


def _when(moment: datetime | None, never: str = "never") -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else never


def _state(one: Token) -> str:
    from lakewarden.model.clock import SystemClock

    if one.revoked_at is not None:
        return "revoked"
    return "counts" if one.counts(SystemClock().now()) else "run out"
