"""`lakewarden.open`: the package's front door, kept free of heavy imports."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from lakewarden import logs
from lakewarden.model.arguments import checked

if TYPE_CHECKING:
    from lakewarden.warden import Warden


@checked
def open(config: str | PathLike[str] | None = None, *, verbose: bool = False) -> Warden:
    """The worker that a configuration describes: what the CLI does, for notebooks, schedulers and writers.

    A context manager: leaving it lets go of the state database.
    """
    logs.configure(verbose=verbose)
    from lakewarden.wiring import open_warden

    return open_warden(None if config is None else str(config), verbose=verbose)
