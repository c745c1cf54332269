"""`gateway`: a proxy in front of a REST catalog that refuses commits without the keys that their table requires."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakewarden.cli.doctor_text import plural
from lakewarden.cli.options import Shared
from lakewarden.cli.screen import Screen
from lakewarden.cli.signals import command
from lakewarden.model.errors import Exit


def gateway(
    shared: Shared,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Listen at this address.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=0, max=65535, help="Listen at this port.")
    ] = None,
) -> int:
    """Stand in front of an Iceberg REST catalog and refuse commits without the required lineage keys."""
    from lakewarden.gateway.server import serve
    from lakewarden.settings import load_settings

    screen = Screen()

    def told(address: str, upstream: str) -> None:
        document = {"listening": address, "upstream": upstream}
        screen.document(document) if shared.as_json else screen.line(f"Listening at {address}, in front of {upstream}.")
        sys.stdout.flush()  # whoever reads it through a pipe waits for it

    def run() -> int:
        cut = serve(load_settings(shared.config), host, port, told)
        if not shared.as_json:
            screen.line(f"Stopped: {_cut_off(cut)}.")
        return Exit.DONE

    return command().hand_over(run)


def _cut_off(requests: int) -> str:
    if not requests:
        return "every request that was begun was answered"
    return f"{plural(requests, 'request')} took too long and {'was' if requests == 1 else 'were'} cut off"
