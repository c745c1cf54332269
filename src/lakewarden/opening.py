"""`lakewarden.open` and `lakewarden.lineage`: the package's front doors. They import nothing before they are used: a command says that it is there
before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from lakewarden.warden import Warden
    from lakewarden.writers import Lineage


def open(config: str | PathLike[str] | None = None, *, verbose: bool = False, spark: Any = None) -> Warden:
    """The worker that a configuration describes: what the CLI does, for notebooks, schedulers and writers.

    A context manager: leaving it lets go of the state database.
    `spark` is a session to work with instead of one of its own. Its settings stay as they are.
    """
    from lakewarden.model.arguments import checked

    return checked(_open)(config, verbose, spark)


def _open(config: str | PathLike[str] | None, verbose: bool, spark: Any) -> Warden:
    from lakewarden import logs
    from lakewarden.wiring import open_warden

    logs.configure(verbose=verbose)
    return open_warden(None if config is None else str(config), verbose=verbose, spark=spark)


def lineage(writer: str, **said: Any) -> Lineage:
    """What a writer of yours says with each of its commits: who, where, which version, why, from what.

    Takes what `lakewarden.writers.lineage` takes. Raises ArgumentError for anything else.
    """
    from lakewarden.writers import lineage as made

    return made(writer, **said)
