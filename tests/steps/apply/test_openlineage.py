"""Runs as OpenLineage events: a real receiver hears of each, and a broken one disturbs none."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli.main import main
from lakewarden.model.actor import Actor
from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import LeaseLostError
from lakewarden.model.run import RunResult, RunStatus
from lakewarden.steps.apply.openlineage import Endpoint, RunEvents
from tests.support.worlds import World, hand_plan, make_world


class Receiver(ThreadingHTTPServer):
    """Keeps what is posted to it, and answers with `status`."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str | None, dict[str, Any]]] = []
        self.status = 201

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                owner: Any = self.server
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.heard.append((self.path, self.headers.get("Authorization"), json.loads(body)))
                self.send_response(owner.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def world_telling(place: Path, url: str, **more: object) -> World:
    world = make_world(place, ("sales.orders",))
    said = {"url": url, "namespace": "warden-prod", **more}
    with world.config.open("a") as config:
        config.write("\n[openlineage]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items()))
    return world


def test_a_receiver_hears_of_a_run_from_start_to_end(tmp_path: Path, receiver: Receiver) -> None:
    world = world_telling(tmp_path, receiver.url, api_key="k3y-of-ours")
    plan = hand_plan(world)
    words = ["apply", plan.path, "--yes", "--config", str(world.config), "--operator", "ada", "--ticket", "OPS-7"]
    assert main(words) == 0
    world.close()
    assert [path for path, _, _ in receiver.heard] == ["/api/v1/lineage"] * 2
    assert {key for _, key, _ in receiver.heard} == {"Bearer k3y-of-ours"}
    start, end = (document for _, _, document in receiver.heard)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["job"]["namespace"] == "warden-prod"
    assert end["job"]["name"] == "orphan-cleanup"
    told = end["run"]["facets"]["lakewarden"]
    assert (told["operator"], told["ticket"], told["status"]) == ("ada", "OPS-7", "done")
    assert told["deleted"]["files"] > 0
    for side in ("inputs", "outputs"):
        (dataset,) = end[side]
        assert (dataset["namespace"], dataset["name"]) == ("lake", "sales.orders")
        assert dataset["facets"]["version"]["datasetVersion"].endswith(".metadata.json")


@pytest.mark.parametrize(
    ("error", "kind"),
    [(LeaseLostError("somebody else has it; password=hidden"), "FAIL"), (KeyboardInterrupt(), "ABORT")],
)
def test_a_run_that_ends_early_is_told_with_its_reason(
    tmp_path: Path, receiver: Receiver, error: BaseException, kind: str
) -> None:
    world = make_world(tmp_path, ("sales.orders",))
    plan = hand_plan(world).plan
    events = RunEvents(Endpoint(receiver.url, "warden-prod", None, 5.0), SystemClock())
    with pytest.raises(type(error)), events.telling("0123456789abcdef", plan, Actor("ada", "w1")):
        raise error
    world.close()
    start, end = (document for _, _, document in receiver.heard)
    assert (start["eventType"], end["eventType"]) == ("START", kind)
    message = end["run"]["facets"]["errorMessage"]["message"]
    assert type(error).__name__ in message or LeaseLostError.code in message
    assert "hidden" not in message
    assert (kind == "FAIL") is (end["outputs"] == [])


def test_a_receiver_that_refuses_hangs_or_is_not_there_disturbs_no_run(tmp_path: Path, receiver: Receiver) -> None:
    receiver.status = 500
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gone = "http://127.0.0.1:1"
        for number, url in enumerate((receiver.url, f"http://127.0.0.1:{silent.getsockname()[1]}", gone)):
            world = world_telling(tmp_path / str(number), url, timeout_seconds=1.0)
            plan = hand_plan(world)
            began = time.monotonic()
            assert main(["apply", plan.path, "--yes", "--config", str(world.config), "--quiet"]) == 0
            assert time.monotonic() - began < 8
            world.close()
    assert len(receiver.heard) == 2


@contextlib.contextmanager
def dripping() -> Iterator[str]:
    """A receiver that answers one letter at a time and never ends: every read is in time."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=drip, args=(client,), daemon=True).start()

    def drip(client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            client.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not over.wait(0.2):
                client.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()


def test_a_process_ends_though_the_receiver_never_does(tmp_path: Path) -> None:
    """Whoever waits for a command waits for its run, and for the receiver once at most; one line says what went wrong."""
    with dripping() as url:
        world = world_telling(tmp_path, url, timeout_seconds=1.0)
        plan = hand_plan(world)
        world.close()
        command = [sys.executable, "-m", "lakewarden", "apply", plan.path, "--yes", "--config", str(world.config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    # Beside the steps of the command, where it was slow enough to tell of any.
    assert len([line for line in done.stderr.splitlines() if "OpenLineage" in line]) == 1
    assert "Traceback" not in done.stderr


def test_a_night_waits_once_for_a_receiver_that_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = make_world(tmp_path, ("sales.orders",))
    plan = hand_plan(world).plan
    world.close()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        events = RunEvents(Endpoint(url, "warden-prod", None, 0.7), SystemClock())
        began = time.monotonic()
        for number in range(6):
            with events.telling(f"{number:016x}", plan, Actor("ada", "w1")) as done:
                done.append(RunResult(f"{number:016x}", plan.plan_id, plan.job, RunStatus.DONE))
        assert time.monotonic() - began < 2
    assert capsys.readouterr().err.count("OpenLineage") == 1


def test_a_receiver_that_is_back_hears_of_runs_again(tmp_path: Path, receiver: Receiver) -> None:
    world = make_world(tmp_path, ("sales.orders",))
    plan = hand_plan(world).plan
    world.close()

    class Passing(SystemClock):
        later = 0.0

        def boot(self) -> float:
            return super().boot() + self.later

    clock = Passing()
    events = RunEvents(Endpoint("http://127.0.0.1:1", "warden-prod", None, 0.5), clock)
    for url, later in (("http://127.0.0.1:1", 0.0), (receiver.url, 0.0), (receiver.url, 3600.0)):
        events.endpoint, clock.later = replace(events.endpoint, url=url), later
        with events.telling("0123456789abcdef", plan, Actor("ada", "w1")) as done:
            done.append(RunResult("0123456789abcdef", plan.plan_id, plan.job, RunStatus.DONE))
    assert [document["eventType"] for _, _, document in receiver.heard] == ["START", "COMPLETE"]


@pytest.mark.parametrize(("job", "outputs"), [("orphan-cleanup", 1), ("lineage-check", 0), ("history", 0)])
def test_only_a_job_that_changes_tables_has_outputs(tmp_path: Path, receiver: Receiver, job: str, outputs: int) -> None:
    """Else every table of the fleet would seem to be made by the job that only looks at it."""
    world = make_world(tmp_path, ("sales.orders",))
    plan = replace(hand_plan(world).plan, job=job)
    world.close()
    events = RunEvents(Endpoint(receiver.url, "warden-prod", None, 5.0), SystemClock())
    with events.telling("0123456789abcdef", plan, Actor("ada", "w1")) as done:
        done.append(RunResult("0123456789abcdef", plan.plan_id, plan.job, RunStatus.DONE))
    end = receiver.heard[-1][2]
    assert (len(end["inputs"]), len(end["outputs"])) == (1, outputs)
