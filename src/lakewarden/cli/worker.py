"""The worker that the commands ask, loaded when first asked for, so that `--help` stays fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.cli.options import Shared
    from lakewarden.warden import Warden


def open_worker(shared: Shared) -> Warden:
    """The worker that the configuration describes."""
    from lakewarden.wiring import open_warden

    return open_warden(shared.config, verbose=shared.verbose)
