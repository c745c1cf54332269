"""A writer's heartbeat over HTTP: for writers that reach the service and not its state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import httpx

from lakewarden import logs
from lakewarden.model.errors import ArgumentError, LakewardenError, StateError

SECONDS = 10.0
# Whether the beat was heard is not known: the answer may be what was lost.
LOOK_THERE = (
    "The writer's files may not be in flight. Check that `lakewarden serve` listens at that url, then begin again."
)

_log = logs.logger(__name__)


@contextmanager
def beating(url: str, token: str, writer: str, table: str, prefix: str | None, ttl_seconds: int) -> Iterator[None]:
    """Beat now and every third of the time to live, until the block ends or the process dies.

    Raises StateError if the service cannot be reached at first: a writer that is not protected has to know. A later beat
    that fails is told in the log and tried again; the writer's files stay in flight for a while in any case.
    """
    address = f"{url.rstrip('/')}/api/v1/heartbeats/{quote(writer, safe='')}"
    body = {"table": table, "ttl_seconds": ttl_seconds, **({"prefix": prefix} if prefix else {})}
    ended = threading.Event()
    with httpx.Client(timeout=SECONDS, headers={"Authorization": f"Bearer {token}"}) as client:

        def ask(method: str, **more: object) -> None:
            try:
                answer = client.request(method, address, **more)  # type: ignore[arg-type]
            except httpx.HTTPError as error:
                raise StateError(
                    f"the service did not answer the heartbeat of {writer}: {type(error).__name__}", hint=LOOK_THERE
                ) from error
            if not answer.is_success:
                raise _refused(answer, writer)

        def keep_beating() -> None:
            while not ended.wait(ttl_seconds / 3):
                try:
                    ask("PUT", json=body)
                except LakewardenError as error:
                    _log.warning("heartbeat not heard", writer=writer, code=error.code, message=error.message)

        ask("PUT", json=body)
        thread = threading.Thread(target=keep_beating, name=f"heartbeat {table}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            try:
                ask("DELETE", params={"table": table})
            except LakewardenError as error:
                # The files were committed or given up; that they stay in flight for a day more harms nobody.
                _log.warning("heartbeat not ended", writer=writer, code=error.code, message=error.message)


def _refused(answer: httpx.Response, writer: str) -> LakewardenError:
    """What the service says, as an error of ours."""
    try:
        said = answer.json()
        return LakewardenError(str(said["message"]), code=str(said["code"]), hint=str(said["hint"]))
    except (ValueError, KeyError, TypeError):
        told = f"the service answered the heartbeat of {writer} with HTTP {answer.status_code}"
        return StateError(told, hint=LOOK_THERE)


def checked(url: str, token: str | None) -> str:
    """The token. Raises ArgumentError for an address or a token that cannot be one."""
    if not url.startswith(("http://", "https://")):
        raise ArgumentError(f"heartbeat: url must begin with http:// or https://, and not be {url!r}", argument="url")
    if not token:
        raise ArgumentError("heartbeat: url needs a token: the service lets nobody write without one", argument="token")
    return token
