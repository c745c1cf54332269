"""`lakewarden.open`: the package's front door, kept free of heavy imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden import logs

if TYPE_CHECKING:
    from lakewarden.warden import Warden


def open(config: str | None = None, *, verbose: bool = False) -> Warden:
    """The worker that a configuration describes: what the CLI does, for notebooks, schedulers and writers."""
    logs.configure(verbose=verbose)
    from lakewarden.wiring import open_warden

    return open_warden(config, verbose=verbose)
