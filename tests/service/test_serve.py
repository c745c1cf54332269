"""`lakewarden serve` as real processes: whichever is killed comes back, the work goes on, SIGTERM ends it well."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakewarden.cli.main import main
from lakewarden.model.actor import Actor
from lakewarden.model.service import RequestKind, RequestStatus, Role
from lakewarden.service.runner.__main__ import BEHIND
from lakewarden.service.service import Service, open_service
from tests.support.worlds import World, environment, hand_plan, make_world

PATIENCE = 90.0
WEB, RUNNER = "lakewarden.service.web", "lakewarden.service.runner"
ADA = Actor("ada", "host-1")


def until(true: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"never came true: {what}")


@dataclass
class Served:
    """A running service, seen from outside."""

    process: subprocess.Popen[str]
    service: Service
    said: Path
    killed: list[int] = field(default_factory=list)

    @property
    def words(self) -> str:
        return self.said.read_text("utf-8")

    @property
    def address(self) -> str:
        found = until(lambda: re.search(r"http://\S+", self.words), "an address is printed")
        return str(found[0])

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.address}/readyz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def children(self, module: str) -> list[int]:
        """The process ids of a part of the service, of those that are there after those that were killed."""
        return [pid for pid in children_of(self.process.pid) if pid not in self.killed and module in _command(pid)]

    def child(self, module: str) -> int:
        return int(until(lambda: self.children(module), f"{module} runs")[0])

    def nice(self, module: str) -> int:
        return os.getpriority(os.PRIO_PROCESS, self.child(module))

    def kill(self, module: str) -> None:
        pid = self.child(module)
        self.killed.append(pid)
        os.kill(pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


@contextmanager
def served(world: World, *words: str, name: str = "said") -> Iterator[Served]:
    said = world.base / name
    command = [word for word in world.command("serve", "--port", "0", *words) if word not in ("--output", "json")]
    with said.open("w") as out:
        process = subprocess.Popen(command, stderr=out, stdout=out, text=True, env=environment())
    try:
        yield Served(process, open_service(str(world.config)), said)
    finally:
        for pid in [*children_of(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    # One file a batch and a pause after each: there is time to kill somebody at work.
    made = make_world(tmp_path / "world", ("sales.orders",), dry_run=False, batch_size=1, orphans=4)
    text = made.config.read_text().replace("rate_limit_ms = 0", "rate_limit_ms = 150")
    made.config.write_text(text + "\n[service]\nschedule = false\n")
    yield made
    made.close()


def test_either_part_is_killed_and_the_work_goes_on(world: World) -> None:
    plan = hand_plan(world)
    with served(world) as found:
        until(found.answers, "the web answers")
        assert "Lakewarden serves" in found.words
        assert "lakewarden token create" in found.words
        requests = found.service.ledger.requests
        requests.create("q1", RequestKind.APPLY, ADA, job="orphan-cleanup", arguments={"plan": plan.path})
        until(lambda: sum(not path.exists() for path in world.planted()) >= 2, "some files are deleted")
        assert found.nice(RUNNER) > found.nice(WEB), "answers come first"
        if (shared := Path(f"/proc/{found.child(RUNNER)}/autogroup")).exists():
            assert shared.read_text().split()[-1] == str(BEHIND), "also where cores are shared out by session"
        found.kill(RUNNER)
        assert found.answers()
        found.kill(WEB)
        until(found.answers, "the web answers again on the same address")
        until(lambda: requests.need("q1").status.is_over, "the request is over")
        ended = requests.need("q1")
        assert ended.status is RequestStatus.DONE, ended
        assert ended.takeovers == 1
        assert ended.result is not None
        assert ended.result["deleted"]["files"] == len(world.planted())
        assert not any(path.exists() for path in world.planted())
        assert world.lost() == set()
        assert len(found.service.ledger.runs.list()) == 1


def test_a_web_process_is_killed_and_the_other_answers_until_it_is_back(world: World) -> None:
    with served(world) as found:
        first, second = until(lambda: found.children(WEB) if len(found.children(WEB)) == 2 else [], "there are two")
        until(found.answers, "the web answers")
        found.kill(WEB)
        until(found.answers, "the other one answers")
        assert {first, second} - {*found.killed} <= {*found.children(WEB)}, "and was not begun anew"
        until(lambda: len(found.children(WEB)) == 2, "there are two again")


def test_sigterm_ends_between_batches_and_gives_everything_back(world: World) -> None:
    plan = hand_plan(world)
    with served(world) as found:
        until(found.answers, "the web answers")
        requests = found.service.ledger.requests
        requests.create("q1", RequestKind.APPLY, ADA, job="orphan-cleanup", arguments={"plan": plan.path})
        until(lambda: any(not path.exists() for path in world.planted()), "a file is deleted")
        found.process.terminate()
        assert found.process.wait(PATIENCE) == 0
        left = [path for path in world.planted() if path.exists()]
        assert 0 < len(left) < len(world.planted())
        ended = requests.need("q1")
        assert (ended.status, ended.claimed_by) == (RequestStatus.QUEUED, None)
        assert [lease for lease in world.warden.leases() if lease["state"] == "held"] == []
        assert not found.service.ledger.journal.open_batches(found.service.ledger.runs.list()[0].run_id)
        assert "Traceback" not in found.words
        assert "Fatal" not in found.words


def test_nothing_is_left_running_when_the_one_that_watches_is_killed(world: World) -> None:
    with served(world) as found:
        until(found.answers, "the web answers")
        parts = [*found.children(WEB), found.child(RUNNER)]
        assert len(parts) == 3
        found.process.kill()
        found.process.wait()
        until(lambda: not any(_command(pid) for pid in parts), "all parts end by themselves")


def test_it_does_not_listen_for_others_unprotected(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "--host", "0.0.0.0", "--port", "0", "--config", str(world.config)]
    assert main(words) == 64
    assert "nobody has a token" in capsys.readouterr().err
    open_service(str(world.config)).ledger.tokens.create("ada", Role.VIEWER, created_by="test")
    assert main(words) == 64
    assert "sent in the clear" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port), "--config", str(world.config)]) == 64
    assert "cannot listen" in capsys.readouterr().err


def test_a_certificate_that_cannot_be_used_is_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = world.base / "nothing.pem"
    nothing.write_text("no certificate")
    with world.config.open("a") as config:
        config.write(f'tls_certificate = "{nothing}"\ntls_key = "{nothing}"\n')
    assert main(["serve", "--port", "0", "--config", str(world.config)]) == 64
    assert "tls_certificate" in capsys.readouterr().err


def test_a_cron_line_that_is_none_is_told_before_anything_starts(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with world.config.open("a") as config:
        config.write('[restore_drill]\ncron = "61 9 * * *"\n')
    assert main(["serve", "--port", "0", "--config", str(world.config)]) == 64
    assert "restore_drill.cron is '61 9 * * *', which is no cron line" in capsys.readouterr().err


def test_a_runner_whose_schedule_cannot_be_read_ends(world: World) -> None:
    """It would else live on without the thread that hears signals, and the service would wait for it for ever."""
    config = world.config.read_text().replace("schedule = false", "schedule = true")
    world.config.write_text(config + '[restore_drill]\ncron = "61 9 * * *"\n')
    command = [sys.executable, "-m", RUNNER, "--config", str(world.config)]
    ended = subprocess.run(command, timeout=PATIENCE, capture_output=True, text=True, env=environment())
    assert ended.returncode == 64
    assert "is no cron line" in ended.stderr
