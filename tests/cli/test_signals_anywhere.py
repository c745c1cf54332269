"""A signal at any moment of a command that works with Spark: in a call to the JVM, in a finaliser, between two jobs.

The moments are drawn by a seed over the time that the command takes here, so that a run of this test meets other
instructions of Python and of py4j each time, and every moment is told if it fails. It shares its process and its Spark
session with other tests: a command that was stopped must leave both to the next one as they were.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli.command_thread import CommandThread
from lakewarden.cli.main import main
from tests.support.deployments import Deployed
from tests.support.worlds import World, make_world

# How many moments of each command, in this order: what `plan all` does contains what the others do.
COMMANDS = {"plan all": 10, "run all": 3, "forecast --select *": 2, "report": 2, "doctor": 2}
SECONDS_TO_END = 5.0
# What is abandoned ends with the process; where the process goes on, it is waited for.
SECONDS_ABANDONED = 120.0
# A command that was as good as over may end as if nothing had come.
SECONDS_OVER = 0.5


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    base = tmp_path_factory.mktemp("signals")
    world = make_world(base)
    jobs = {
        job: {"enabled": True, "dry_run": True} for job in ("orphan_cleanup", "snapshot_expiry", "partition_expiry")
    }
    deployed = Deployed(base, {world.lake.name: world.lake.properties}, sections=jobs)
    return replace(world, config=Path(deployed.config("signals.toml")))


def words_of(command: str, lake: World) -> list[str]:
    name, *more = command.split()
    words = ["report", "--out", str(lake.base / "report.html")] if name == "report" else [name, *more]
    return [*words, "--config", str(lake.config), "--output", "json", "--quiet"]


def ended(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], float]:
    """The exit code, the codes of the errors that were told, in a document or in words, and when that was."""
    code = main(words)
    over = time.monotonic()
    for left in threading.enumerate():  # A process of one command ends without one that was abandoned.
        if isinstance(left, CommandThread):
            left.join(SECONDS_ABANDONED)
            assert left.over
    said = capsys.readouterr()
    found = [document.get("error", {}).get("code", "") for document in documents(said.out)]
    told = [*filter(None, found), *(line.split()[0] for line in said.err.splitlines() if line[:3] == "LW-")]
    return code, told, over


def documents(text: str) -> list[dict[str, Any]]:
    found, decoder, at = [], json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def hit(moment: float, begun: threading.Event, gone: list[float]) -> None:
    begun.wait()
    time.sleep(moment)
    gone.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_was_stopped_and_says_so_wherever_the_signal_falls(
    lake: World, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_of(command, lake)
    main(words)
    began = time.monotonic()
    assert ended(words, capsys)[0] in (0, 4)
    whole = time.monotonic() - began
    before = signal.signal(signal.SIGINT, lambda *_: None)  # one that comes after the end of the command
    seed = random.Random(command)
    try:
        for moment in sorted(seed.uniform(0, whole) for _ in range(COMMANDS[command])):
            begun, gone = threading.Event(), []
            sender = threading.Thread(target=hit, args=(moment, begun, gone))
            sender.start()
            begun.set()
            code, told, over = ended(words, capsys)
            sender.join()
            late = over - gone[0]
            at = f"{command} at {moment:.3f} s of {whole:.3f}"
            assert late < SECONDS_TO_END, f"{at}: it went on for {late:.1f} s"
            if code in (0, 4) and late < SECONDS_OVER:
                assert told == [], at
            else:
                assert code == 130, at
                assert told == ["LW-CORE-002"] or (command, told) == ("run all", []), at
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended(words, capsys)[0] in (0, 4), "the session is as good as before"
