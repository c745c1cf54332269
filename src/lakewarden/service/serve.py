"""`lakewarden serve`: web processes and a runner process, watched over. The one that dies is started again."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from lakewarden import logs
from lakewarden.model.errors import ConfigError, Exit, UnsafeBindError, UsageError
from lakewarden.service.runner.names import BEGIN_ANEW, new_name
from lakewarden.service.service import Service, is_loopback, open_service

_log = logs.logger(__name__)
POLL_SECONDS = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# A process that lived for so long was well: the next pause is short again.
WELL_AFTER = 300.0
# The web process changes nothing that it could leave half done; a runner is waited for, it is within a batch.
WEB_SECONDS = 20.0


def serve(
    config: str | None,
    *,
    host: str | None = None,
    port: int | None = None,
    quiet: bool = False,
    verbose: bool = False,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> int:
    """Serve until a signal comes. Raises UnsafeBindError where others could reach what nobody has protected, and ConfigError
    for a certificate that cannot be used."""
    service = open_service(config, host=host, port=port)
    check_bind(service)
    check_certificate(service)
    listening = _listen(service.section.host, service.section.port)
    address = f"{'https' if service.section.tls else 'http'}://{_shown(listening)}"
    common = ["--lifeline", *(["--config", config] if config else []), *(["--verbose"] if verbose else [])]
    fd, name = listening.fileno(), service.section.host
    words = ["lakewarden.service.web", "--fd", str(fd), "--host", name, *common]
    children = [Child("web", lambda _: words, (fd,), WEB_SECONDS) for _ in range(service.section.web_processes)]
    if service.section.runner:
        children.append(
            Child("runner", lambda before: ["lakewarden.service.runner", *_names(service, before), *common])
        )
    if not quiet:
        _greet(service, address, say)
    service.warden.close()
    with _heard() as told_to_end:
        try:
            while not told_to_end:
                for child in children:
                    child.watch()
                time.sleep(POLL_SECONDS)
        finally:
            if not quiet and any(child.alive for child in children):
                say("Ending: what is at work ends between two batches.")
            for child in children:
                child.ask_to_end()
            for child in children:
                child.wait_for_end()
            listening.close()
    return Exit.DONE


def _names(service: Service, before: str | None) -> list[str]:
    return ["--name", new_name(service.settings.worker.id), *(["--instead-of", before] if before else [])]


def _greet(service: Service, address: str, say: Callable[[str], None]) -> None:
    say(f"Lakewarden serves {address}")
    if not service.ledger.tokens.any_counts():
        look = "Anybody on this machine may look. " if service.anonymous_read else ""
        say(f"{look}To change anything, make a token: lakewarden token create NAME --role approver")
    if not service.section.runner:
        say("No runner is started here (service.runner = false): requests wait for a runner elsewhere.")


@dataclass
class Child:
    """A process that is started again when it ends, at once or after a pause that grows while it keeps dying."""

    name: str
    words: Callable[[str | None], list[str]]
    fds: tuple[int, ...] = ()
    patience: float | None = None
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    not_before: float = 0.0
    pause: float = FIRST_PAUSE
    _before: str | None = field(default=None)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def watch(self) -> None:
        """Start the process unless it is there."""
        now = time.monotonic()
        if self.alive:
            return
        if self.process is not None:
            code, self.process = self.process.returncode, None
            self.pause = FIRST_PAUSE if now - self.started > WELL_AFTER else min(self.pause * 2, LONGEST_PAUSE)
            self.not_before = now if code == BEGIN_ANEW else now + self.pause
            _log.warning("a process of the service ended", process=self.name, code=code)
        if now >= self.not_before:
            words = self.words(self._before)
            if "--name" in words:
                self._before = words[words.index("--name") + 1]
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words], stdin=subprocess.PIPE, pass_fds=self.fds, start_new_session=True
            )
            self.started = now

    def ask_to_end(self) -> None:
        if self.process is not None:
            self.process.terminate()

    def wait_for_end(self) -> None:
        """Wait until the process has ended; one that has nothing to lose is not waited for for ever."""
        if self.process is None:
            return
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            _log.warning("a process of the service did not end", process=self.name, seconds=self.patience)
            self.process.kill()
            self.process.wait()


@contextmanager
def _heard() -> Iterator[list[int]]:
    """The signals that came, while the block is open."""
    came: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(1024)
    except OSError as error:
        raise UsageError(
            f"the service cannot listen on {host} port {port}: {error.strerror or error}; nothing was started",
            hint="Choose another with --host or --port.",
        ) from error
    return found


def _shown(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_bind(service: Service) -> None:
    """Raise UnsafeBindError unless the service is alone with this machine, or has tokens and a decision about TLS."""
    section = service.section
    if is_loopback(section.host):
        return
    if not service.ledger.tokens.any_counts():
        raise UnsafeBindError(f"{section.host} can be reached by others, and nobody has a token; nothing was started")
    if not section.tls and not section.plain_http:
        raise UnsafeBindError(
            f"{section.host} can be reached by others, and tokens would be sent in the clear; nothing was started"
        )


def check_certificate(service: Service) -> None:
    """Raise ConfigError unless the certificate and its key can be read and belong together."""
    section = service.section
    if section.tls_certificate is None or section.tls_key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(section.tls_certificate, section.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"service.tls_certificate and service.tls_key cannot be used: {error}; nothing was started"
        ) from error
