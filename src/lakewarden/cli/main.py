"""The command line: the commands by name, and the one place where errors become words and exit codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from lakewarden import __version__, logs
from lakewarden.cli import (
    audit_commands,
    config_commands,
    control_commands,
    gateway_command,
    lake_commands,
    plan_commands,
    protection_commands,
    report_commands,
    run_commands,
    service_commands,
    worker,
)
from lakewarden.cli.option_sets import Commands
from lakewarden.cli.options import Shared
from lakewarden.cli.screen import show_error
from lakewarden.cli.signals import obeying_signals
from lakewarden.model.errors import Exit, LakewardenError, NeedsApprovalError, UsageError
from lakewarden.model.redaction import redact
from lakewarden.model.stop import Stopped

app = Commands(
    name="lakewarden",
    help="Looks after lakehouse tables, and never deletes a file that anything still needs.",
    pretty_exceptions_enable=False,
)
for command in (
    plan_commands.plan,
    plan_commands.show,
    plan_commands.diff,
    run_commands.apply,
    run_commands.run,
    run_commands.runs,
    run_commands.restore,
    protection_commands.abandon,
    protection_commands.forget,
    lake_commands.tables,
    lake_commands.policy,
    report_commands.doctor,
    report_commands.forecast,
    report_commands.report,
    report_commands.metrics,
    lake_commands.explain,
    control_commands.leases,
    control_commands.freeze,
    control_commands.unfreeze,
    service_commands.serve,
    gateway_command.gateway,
):
    app.command()(command)
app.add_typer(audit_commands.audit, name="audit")
app.add_typer(config_commands.config, name="config")
app.add_typer(service_commands.token, name="token")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _before_the_command(
    shared: Shared,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_print_version)
    ] = False,
) -> None: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Nothing escapes as a traceback unless --verbose asks for it."""
    argv = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    verbose, as_json = "--verbose" in argv, _wants_json("--output", argv)
    logs.configure(verbose=verbose, as_json=_wants_json("--log-format", argv))
    try:
        return obeying_signals(lambda: int(app(argv, prog_name="lakewarden", standalone_mode=False) or Exit.DONE))
    except LakewardenError as error:
        return _failed(error.code, error.message, error.hint, error.exit_code, as_json, verbose)
    except Stopped as stop:
        _end_line()
        return _failed(stop.code, stop.message, stop.hint, stop.exit_code, as_json, False)
    except TyperException as error:
        known = getattr(error, "ctx", None)
        asked = known.command_path if known is not None else "lakewarden"
        message = error.format_message().replace(": Value error, ", ": ")
        usage = UsageError(message, hint=f"`{asked} --help` says what it takes.")
        return _failed(usage.code, usage.message, usage.hint, usage.exit_code, as_json, False)
    except Abort:
        _end_line()
        ended = NeedsApprovalError("the question was not answered; nothing was deleted")
        return _failed(ended.code, ended.message, ended.hint, ended.exit_code, as_json, False)
    except Exception as error:
        message = f"unexpected {type(error).__name__}: {error}"
        return _failed(LakewardenError.code, message, LakewardenError.hint, Exit.FAILED, as_json, verbose)
    finally:
        worker.write_metrics()


def _failed(code: str, message: str, hint: str, exit_code: Exit, as_json: bool, with_traceback: bool) -> int:
    if logs.in_json() and not as_json:
        # Whoever reads stderr as documents reads errors so too.
        logs.logger("lakewarden").error(message, code=code, hint=hint, **({"exc_info": True} if with_traceback else {}))
        return exit_code
    if with_traceback:
        sys.stderr.write(redact(traceback.format_exc()))
    show_error(code, message, hint, as_json)
    return exit_code


def _end_line() -> None:
    """Leave the line on which a terminal shows ^C, or a question without an answer."""
    if sys.stderr.isatty():
        sys.stderr.write("\n")


def _wants_json(option: str, argv: Sequence[str]) -> bool:
    """Whether the user asked for JSON; read from the words themselves, since parsing them may be what failed."""
    apart = [value for name, value in pairwise([*argv, ""]) if name == option]
    joined = [word.partition("=")[2] for word in argv if word.startswith(f"{option}=")]
    return (apart or joined or [""])[-1] == "json"
