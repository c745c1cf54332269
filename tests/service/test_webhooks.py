"""Webhooks hear of refusals, brakes and failures: signed, at least once, whatever is killed, and never at a run's cost."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import pytest
from fastapi.testclient import TestClient

from lakewarden.ledger.database import Ledger, open_ledger
from lakewarden.ledger.outbox import GIVEN_UP_AFTER, TELLING
from lakewarden.ledger.statuses import STOPPED
from lakewarden.model.errors import Refusal
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.webhooks import of_error
from lakewarden.service.app import create_app
from lakewarden.service.webhooks import Deliverer, delivering
from lakewarden.settings.sections import Webhook
from tests.ledger.samples import ACTOR, NOON, started
from tests.support.ledger import SteppedClock, clock, ledger, ledger_url
from tests.support.service import service_in

__all__ = ["clock", "ledger", "ledger_url"]

SECRET = "a secret of some length"
ALL = frozenset({"refusal", "brake", "failure"})
MINUTE = timedelta(minutes=1)


@dataclass
class Receiver:
    """A real server that writes down what it is sent, and answers as it is told to."""

    url: str = ""
    status: int = 200
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.heard]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.heard.append((dict(self.headers), body))
            self.send_response(receiver.status)
            self.end_headers()
            receiver.came.set()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def deliverer(ledger: Ledger, clock: SteppedClock, *receivers: Receiver) -> Deliverer:
    hooks = [Webhook(url=one.url, secret=SECRET, name=f"hook-{number}") for number, one in enumerate(receivers)]
    ledger.outbox.subscribe({hook.known_as: ALL for hook in hooks})
    return Deliverer(ledger.outbox, hooks, clock)


def refusing_plan() -> Plan:
    refused = TablePlan("c.n.a", "u", "iceberg", "m", refusal=Refusal("LW-TABLE-002", "password=hunter2", "h"))
    braked = TablePlan("c.n.b", "v", "iceberg", "m", refusal=Refusal("LW-BRAKE-004", "m", "h"))
    brakes = {"orphan-share": ("c.n.b",)}
    return Plan("orphan-cleanup", NOON, NOON, NOON, ACTOR, (refused, braked), (), (), brakes=brakes).sealed()


def test_refusals_brakes_and_failures_are_told_once_each(
    ledger: Ledger, clock: SteppedClock, receiver: Receiver
) -> None:
    sender = deliverer(ledger, clock, receiver)
    made = refusing_plan()
    ledger.plans.save(made, "/a")
    ledger.plans.save(made, "/b")
    for status in ("done", "partial", "failed", "planned"):
        started(ledger, status, made.plan_id)
        ledger.runs.finish(status, status, {"failed": [{"uri": "s3://x", "code": "LW-STORE-001", "message": "m"}]})
    assert sender.deliver_due() == 4
    assert sender.deliver_due() == 0
    refusal, brake, partial, failed = receiver.documents()
    assert (refusal["event"], refusal["codes"], refusal["plan_id"]) == ("refusal", {"LW-TABLE-002": 1}, made.plan_id)
    assert refusal["tables"][0]["table"] == "c.n.a"
    assert "hunter2" not in json.dumps(refusal)
    assert (brake["event"], brake["brakes"], brake["tables"][0]["table"]) == ("brake", {"orphan-share": 1}, "c.n.b")
    assert [(one["status"], one["run_id"], one["codes"]) for one in (partial, failed)] == [
        ("partial", "partial", {"LW-STORE-001": 1}),
        ("failed", "failed", {"LW-STORE-001": 1}),
    ]


def test_the_signature_proves_time_and_body(ledger: Ledger, clock: SteppedClock, receiver: Receiver) -> None:
    sender = deliverer(ledger, clock, receiver)
    ledger.plans.save(refusing_plan(), "/a")
    sender.deliver_due()
    headers, body = receiver.heard[0]
    parts = dict(part.split("=") for part in headers["Lakewarden-Signature"].split(","))
    wanted = hmac.new(SECRET.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(parts["v1"], wanted)
    assert abs(int(parts["t"]) - clock.now().timestamp()) < 60
    assert headers["Lakewarden-Event"] == "refusal"
    assert headers["Lakewarden-Event-Id"] == json.loads(body)["id"]


def test_what_is_not_heard_is_told_again_later_each_time_and_given_up_one_day(
    ledger: Ledger, clock: SteppedClock, receiver: Receiver
) -> None:
    sender = deliverer(ledger, clock, receiver)
    receiver.status = 500
    ledger.outbox.add([of_error("x", "LW-SPARK-001", "m", "failed", request_id="r")])
    waits = []
    for _ in range(200):
        before = len(receiver.heard)
        sender.deliver_due()
        if len(receiver.heard) > before:
            waits.append(clock.at)
        [row] = ledger.outbox.list()
        if row.given_up_at is not None:
            break
        clock.sleep(30 if len(waits) < 5 else 1800)
    gaps = [later - earlier for earlier, later in pairwise(waits)]
    assert gaps[0] < MINUTE < gaps[4] <= timedelta(hours=1.5)
    assert gaps[:5] == sorted(gaps[:5])
    assert row.last_error == "HTTP 500"
    assert timedelta(days=2) < waits[-1] - waits[0] <= GIVEN_UP_AFTER
    assert len({headers["Lakewarden-Event-Id"] for headers, _ in receiver.heard}) == 1, "the receiver can tell"
    receiver.status = 200
    clock.sleep(86400)
    assert sender.deliver_due() == 0


def test_a_process_that_dies_over_it_leaves_it_to_the_next(
    ledger: Ledger, ledger_url: str, clock: SteppedClock, receiver: Receiver
) -> None:
    sender = deliverer(ledger, clock, receiver)
    ledger.plans.save(refusing_plan(), "/a")
    assert len(ledger.outbox.take(["hook-0"])) == 2, "taken, and then the process was killed"
    assert sender.deliver_due() == 0
    clock.sleep(TELLING.total_seconds())
    with open_ledger(ledger_url, clock) as other:
        assert deliverer(other, clock, receiver).deliver_due() == 2


def test_a_webhook_that_is_gone_holds_up_no_other(ledger: Ledger, clock: SteppedClock, receiver: Receiver) -> None:
    sender = deliverer(ledger, clock, Receiver(url="http://127.0.0.1:9/"), receiver)
    ledger.plans.save(refusing_plan(), "/a")
    assert sender.deliver_due() == 2
    assert {row.last_error for row in ledger.outbox.list() if row.webhook == "hook-0"} == {"ConnectError", None}


@contextmanager
def hanging() -> Iterator[Receiver]:
    """A server that takes a connection, and answers a letter now and then."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while not ended.wait(0.05):
                    connection.sendall(b"H")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield Receiver(url=f"http://127.0.0.1:{server.getsockname()[1]}/")
        ended.set()
        thread.join()


def test_a_webhook_that_hangs_holds_up_no_other_however_much_waits_for_it(
    ledger: Ledger, clock: SteppedClock, receiver: Receiver
) -> None:
    with hanging() as slow:
        sender = deliverer(ledger, clock, slow, receiver)
        for number in range(50):
            ledger.outbox.add([of_error(str(number), "LW-SPARK-001", "m", "failed")])
        sender.deliver_due(patience=0.1)
        wait_for(lambda: len(receiver.heard) == 50)
        sender._at_work["hook-1"].join()
        ledger.outbox.add([of_error("one more", "LW-SPARK-001", "m", "failed")])
        sender.deliver_due(patience=0.1)
        wait_for(lambda: len(receiver.heard) == 51)
        assert len([row for row in ledger.outbox.list(200) if row.webhook == "hook-0" and row.attempts]) == 1


def wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_end_waits_for_no_webhook(ledger: Ledger, clock: SteppedClock) -> None:
    with hanging() as slow:
        sender = deliverer(ledger, clock, slow)
        ledger.outbox.add([of_error("x", "LW-SPARK-001", "m", "failed")])
        with delivering(sender, every=0.01):
            wait_for(lambda: bool(sender._at_work))
            begun = time.monotonic()
        assert time.monotonic() - begun < 5


def test_nothing_is_written_where_nobody_listens(ledger: Ledger) -> None:
    ledger.plans.save(refusing_plan(), "/a")
    ledger.outbox.add([of_error("x", "LW-SPARK-001", "m", STOPPED)])
    assert ledger.outbox.list() == []
    ledger.outbox.subscribe({"only": frozenset({"brake"})})
    started(ledger)
    ledger.runs.finish("run-1", "failed", {})
    assert ledger.outbox.list() == []


def test_the_service_tells_while_it_serves(tmp_path: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.service.app.delivering", lambda sender: delivering(sender, every=0.05))
    service = service_in(tmp_path, f'[[webhooks]]\nurl = "{receiver.url}"\nsecret = "{SECRET}"\n')
    with TestClient(create_app(service), base_url="http://127.0.0.1"):
        service.ledger.plans.save(refusing_plan(), "/a")
        assert receiver.came.wait(20)
    assert SECRET not in repr(service.settings)
