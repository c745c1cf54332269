"""`doctor`, `forecast`, `report`, `metrics`: how the lake is, what was done, and what shorter retention would release."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakewarden.cli import worker
from lakewarden.cli.doctor_text import plural, show_doctor
from lakewarden.cli.forecast_text import show_forecast
from lakewarden.cli.options import Shared
from lakewarden.cli.progress import reporting
from lakewarden.cli.screen import Screen, size
from lakewarden.cli.widths import columns_of
from lakewarden.model.errors import Exit, UsageError
from lakewarden.model.redaction import redact

PLAIN_WIDTH = 100

Select = Annotated[list[str] | None, typer.Option("--select", metavar="GLOB", help="Only tables that match.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Without tables that match.")]


def width(screen: Screen) -> int:
    """The columns of the terminal, or as many as a file or a program reads well."""
    return columns_of(sys.stdout) if screen.terminal else PLAIN_WIDTH


def doctor(shared: Shared) -> int:
    """Report on the health of the fleet. Reads only."""
    report = redact(worker.open_worker(shared).doctor())
    screen = Screen()
    screen.document(report) if shared.as_json else show_doctor(screen, report, width(screen))
    return Exit.DONE


def forecast(
    shared: Shared,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="One table: catalog.namespace.table.")] = None,
    select: Select = None,
    exclude: Exclude = None,
) -> int:
    """Show what snapshot expiry would release at 1, 3, 7, 14, 30 and 90 days of retention. Releases nothing."""
    if (table is None) == (not select):
        raise UsageError("forecast takes one TABLE, or --select GLOB; nothing was looked at")
    warden = worker.open_worker(shared)
    with reporting(shared) as progress:
        found = warden.forecast(select=table or tuple(select or ()), exclude=exclude or (), progress=progress)
    screen = Screen()
    if shared.as_json:
        screen.document(redact(found.as_json()))
    else:
        show_forecast(screen, found, warden.cost, width(screen))
    return Exit.DONE if found.counted or not found.tables else Exit.REFUSED


def report(
    shared: Shared,
    out: Annotated[str, typer.Option("--out", metavar="FILE.html", help="Where the page goes.")],
    select: Select = None,
    exclude: Exclude = None,
    forecast: Annotated[
        bool,
        typer.Option("--forecast/--no-forecast", help="With what expiry would release; for this part Spark starts."),
    ] = True,
) -> int:
    """Write one HTML page about the fleet: its health, its bytes, its last runs. Changes nothing."""
    warden = worker.open_worker(shared)
    with reporting(shared) as progress:
        written = warden.report(
            out, select=select or (), exclude=exclude or (), with_forecast=forecast, progress=progress
        )
    screen = Screen()
    if shared.as_json:
        screen.document(written.as_json())
    else:
        screen.line(f"{written.path}   {size(written.bytes)}, {plural(written.tables, 'table')}")
    return Exit.DONE


def metrics(
    shared: Shared,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE.prom", help="Where they go; default: the standard output.")
    ] = None,
) -> int:
    """Print the metrics of this deployment as Prometheus reads them, or write them to a file. Reads only."""
    text = worker.open_worker(shared).metrics(out)
    screen = Screen()
    if shared.as_json:
        screen.document({"path": out, "metrics": [_sample(line) for line in text.splitlines() if line[:1] != "#"]})
    elif out is None:
        for line in text.splitlines():
            screen.line(line)
    else:
        screen.line(f"{out}   {size(len(text.encode()))}")
    return Exit.DONE


def _sample(line: str) -> dict[str, str]:
    name, _, value = line.rpartition(" ")
    return {"sample": name, "value": value}
