"""Tells webhooks what waits in the outbox: signed, again and again until they hear it, in a thread that disturbs nobody."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import httpx

from lakewarden import logs
from lakewarden.ledger.outbox import Delivery, Outbox
from lakewarden.model.clock import Clock
from lakewarden.model.redaction import redact
from lakewarden.settings.sections import Webhook

SIGNATURE, EVENT, EVENT_ID = "Lakewarden-Signature", "Lakewarden-Event", "Lakewarden-Event-Id"
LOOK_EVERY_SECONDS = 5.0
ROUND_SECONDS = 15.0
END_SECONDS = 2.0

_log = logs.logger(__name__)


def signature(secret: str, at: datetime, body: bytes) -> str:
    """`t=UNIX_SECONDS,v1=HEX`: an HMAC-SHA256 over the time, a dot and the body, so that nobody can send an old one again."""
    seconds = int(at.timestamp())
    signed = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={signed}"


class Deliverer:
    """Sends what is due. Several processes may do so at once: each takes other rows.

    Each webhook has a thread of its own while there is something to tell it. One that hangs, or answers a letter a minute,
    holds up nothing but its own events.
    """

    def __init__(self, outbox: Outbox, webhooks: Sequence[Webhook], clock: Clock) -> None:
        self._outbox = outbox
        self._webhooks: Mapping[str, Webhook] = {hook.known_as: hook for hook in webhooks}
        self._clock = clock
        self._at_work: dict[str, threading.Thread] = {}

    def deliver_due(self, patience: float = ROUND_SECONDS) -> int:
        """Send what is due now. How many were heard before the patience with those that hang was over."""
        heard: list[Delivery] = []
        for name in self._outbox.waiting(self._webhooks):
            if name not in self._at_work or not self._at_work[name].is_alive():
                thread = threading.Thread(target=self._tell, args=(name, heard), name=f"webhook {name}", daemon=True)
                self._at_work[name] = thread
                thread.start()
        until = time.monotonic() + patience
        for thread in self._at_work.values():
            thread.join(max(0.0, until - time.monotonic()))
        return len(heard)

    def _tell(self, name: str, heard: list[Delivery]) -> None:
        """Send one webhook what is due, until it does not hear: the rest would not be heard either."""
        hook = self._webhooks[name]
        try:
            with httpx.Client(timeout=hook.timeout_seconds, follow_redirects=False) as client:
                while taken := self._outbox.take([name], limit=1):
                    delivery = taken[0]
                    error = self._send(client, hook, delivery)
                    if error is not None:
                        # Not the address: it often holds a secret.
                        _log.warning("webhook not heard", webhook=name, delivery=delivery.event_id, error=error)
                        self._outbox.failed(delivery, error)
                        return
                    self._outbox.heard(delivery)
                    heard.append(delivery)
        except Exception as error:
            # The outbox keeps what was not sent, and is asked again a moment later.
            _log.warning("webhooks wait", error=str(redact(f"{type(error).__name__}: {error}")))

    def _send(self, client: httpx.Client, hook: Webhook, delivery: Delivery) -> str | None:
        """What went wrong; None if the webhook has heard it."""
        document = {"id": delivery.event_id, "at": delivery.at.isoformat(), **delivery.content}
        body = json.dumps(document, ensure_ascii=False).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "lakewarden",
            EVENT: delivery.kind,
            EVENT_ID: delivery.event_id,
            SIGNATURE: signature(hook.secret, self._clock.now(), body),
        }
        try:
            # The answer's body is of no interest, and may be without end.
            with client.stream("POST", hook.url, content=body, headers=headers) as response:
                return None if response.is_success else f"HTTP {response.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return type(error).__name__


@contextmanager
def delivering(deliverer: Deliverer, every: float = LOOK_EVERY_SECONDS) -> Iterator[None]:
    """While the block is open, what is due is sent by a thread."""
    ended = threading.Event()

    def keep_delivering() -> None:
        while not ended.wait(every):
            try:
                deliverer.deliver_due()
            except Exception as error:
                # The outbox keeps what was not sent, and is asked again a moment later. No error may end the thread.
                _log.warning("webhooks wait", error=str(redact(f"{type(error).__name__}: {error}")))

    thread = threading.Thread(target=keep_delivering, name="webhooks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # What is on its way is sent again by the next process: nobody's end waits for a webhook that hangs.
        thread.join(END_SECONDS)
