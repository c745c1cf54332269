"""`tables`, `policy`, `explain`: questions about the lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from lakewarden.cli import worker
from lakewarden.cli.explain_text import show_explanation
from lakewarden.cli.options import Shared
from lakewarden.cli.screen import Screen
from lakewarden.model.errors import Exit
from lakewarden.model.policy import Job
from lakewarden.model.redaction import redact

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A file's address.")]


def tables(shared: Shared) -> int:
    """List the tables of every configured catalog, refused ones with the reason."""
    found = [dict(table) for table in worker.open_worker(shared).tables()]
    screen = Screen()
    if shared.as_json:
        screen.document({"tables": found})
        return Exit.DONE
    if not found:
        screen.line("The configured catalogs hold no table; `lakewarden config check` says how they answer.")
        return Exit.DONE
    columns = ("identifier", "format", "format_version", "snapshots", "refs", "status", "location")
    rows = [[table.get(column) for column in columns] for table in found]
    screen.grid([column.replace("_", " ") for column in columns], rows, frozenset({2, 3, 4}), drop=(6, 2, 4, 3, 1))
    for table in found:
        if refusal := table.get("refusal"):
            screen.line(f"REFUSED {table['identifier']}   {refusal['code']} {refusal['message']}", style="yellow")
            screen.line(f"  next: {refusal['hint']}")
    return Exit.DONE


def policy(
    shared: Shared,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="catalog.namespace.table")],
) -> int:
    """Show the values in effect for one table, and who set each."""
    found = worker.open_worker(shared).policies(table)
    shown = {
        job: {key: (redact(value, key), source) for key, (value, source) in values.items()}
        for job, values in found.items()
    }
    screen = Screen()
    if shared.as_json:
        jobs = {
            job: {key: {"value": value, "source": source} for key, (value, source) in values.items()}
            for job, values in shown.items()
        }
        screen.document({"table": table, "policy": jobs[Job.ORPHAN_CLEANUP], "jobs": jobs})
        return Exit.DONE
    from lakewarden.settings.load import DEFAULT_FILE

    # The file is named once: on every line it would leave no room for a table at 80 columns.
    file = f"{shared.config or DEFAULT_FILE} "
    named = any(source.startswith(f"{file}[") for values in shown.values() for _, source in values.values())
    if named:
        screen.line(f"Sections in brackets are those of {file}")
    for place, (job, values) in enumerate(shown.items()):
        if place or named:
            screen.line()
        screen.line(job, style="bold")
        rows = [(key, _toml(value), source.removeprefix(file)) for key, (value, source) in values.items()]
        screen.grid(("setting", "value", "set by"), rows)
    return Exit.DONE


def _toml(value: object) -> object:
    """As a user would write it in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(str(_toml(one)) for one in value)}]"
    return f'"{value}"' if isinstance(value, str) else value


def explain(shared: Shared, file: FileArgument) -> int:
    """Say why a file is live, kept or an orphan."""
    answer = worker.open_worker(shared).explain(file)
    screen = Screen()
    screen.document(answer) if shared.as_json else show_explanation(screen, answer)
    return Exit.DONE
