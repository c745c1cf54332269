"""The worker that the commands ask, loaded when first asked for, so that `--help` stays fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden import logs
from lakewarden.cli.signals import command
from lakewarden.model.errors import LakewardenError

if TYPE_CHECKING:
    from lakewarden.cli.options import Shared
    from lakewarden.warden import Warden

_log = logs.logger(__name__)
_opened: list[Warden] = []


def open_worker(shared: Shared) -> Warden:
    """The worker that the configuration describes. Its work ends where a signal to the command says so."""
    from lakewarden.wiring import open_warden

    warden = open_warden(shared.config, verbose=shared.verbose).stopped_by(command().stop)
    _opened[:] = [warden]
    return warden


def write_metrics() -> None:
    """Write the metrics of the worker that was asked, where its settings want them. Never fails a command."""
    while _opened:
        warden = _opened.pop()
        try:
            if warden.textfile is not None:
                warden.metrics(warden.textfile)
        except LakewardenError as error:
            _log.warning("metrics not written", code=error.code, message=error.message)
