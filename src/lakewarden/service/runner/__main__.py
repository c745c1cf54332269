"""The runner process: `python -m lakewarden.service.runner`. It works until its parent is gone or a signal comes."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from lakewarden import logs
from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import LakewardenError, StateError
from lakewarden.service.process import live, when_parent_is_gone
from lakewarden.service.runner.loop import Runner
from lakewarden.service.runner.names import BEGIN_ANEW, new_name
from lakewarden.service.schedule.tick import Scheduler
from lakewarden.settings import load_settings
from lakewarden.warden import Warden
from lakewarden.wiring import Wiring

IDLE_SECONDS = 0.5
TICK_SECONDS = 5.0
# How far behind the web process: where there are too few cores for both, answers come first. Spark inherits it.
BEHIND = 10
_log = logs.logger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Work until told to end: 0. BEGIN_ANEW where another process has to go on at once; 1 after what nobody foresaw."""
    parser = argparse.ArgumentParser(prog="lakewarden-runner")
    parser.add_argument("--config")
    parser.add_argument("--name", default=None)
    parser.add_argument("--instead-of", default=None)
    parser.add_argument("--lifeline", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    said = parser.parse_args(arguments)
    logs.configure(verbose=said.verbose)
    _step_behind()
    settings = load_settings(said.config)
    wiring = Wiring(settings, SystemClock())
    # Before any thread begins: an error here has to end the process.
    scheduler = Scheduler(wiring.ledger, settings, lambda: secrets.token_hex(8)) if settings.service.schedule else None
    name = said.name or new_name(settings.worker.id)
    runner = Runner(wiring.deployment, settings, Warden(wiring, settings), name)
    if said.instead_of:
        wiring.ledger.requests.left_by(said.instead_of)
    told_to_end: list[bool] = []

    def end(number: int, frame: FrameType | None) -> None:
        told_to_end.append(True)  # no lock may be taken in a handler

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if said.lifeline:
        when_parent_is_gone(lambda: told_to_end.append(True))
    work = threading.Thread(target=_work, args=(runner,), name="work")
    work.start()
    ticked = 0.0
    while work.is_alive():
        if told_to_end:
            runner.end()
        elif scheduler is not None and time.monotonic() - ticked >= TICK_SECONDS:
            ticked = time.monotonic()
            _tick(scheduler, wiring)
        work.join(0.2)
    wiring.close()
    if told_to_end:
        return 0
    return BEGIN_ANEW if runner.has_ended else 1


def _step_behind() -> None:
    """Let the web process go first. Linux may share cores out by session before it looks at single processes."""
    os.nice(BEHIND)
    with suppress(OSError):  # no such sharing here
        Path("/proc/self/autogroup").write_text(str(BEHIND))


def _work(runner: Runner) -> None:
    while not runner.has_ended:
        try:
            if runner.work_once() is not None:
                continue
        except StateError as error:
            _log.warning("the state database does not answer", code=error.code, message=error.message)
            time.sleep(IDLE_SECONDS * 4)
        time.sleep(IDLE_SECONDS)


def _tick(scheduler: Scheduler, wiring: Wiring) -> None:
    try:
        scheduler.tick(wiring.clock.now())
    except LakewardenError as error:
        _log.warning("the schedule could not be looked at", code=error.code, message=error.message)
    except Exception as error:
        # The thread that looks at the clock is the one that hears signals: nothing may end it but the end.
        _log.error("the schedule could not be looked at", error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    live(main)
