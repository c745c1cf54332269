"""A server that notes every byte it is sent and answers with bytes of the test's own: to see what a proxy changes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Recorder:
    """`answers` are given out in order, the last of them again and again; None hangs up without one."""

    answers: list[bytes | None] = field(default_factory=lambda: [OK])
    heard: list[bytes] = field(default_factory=list)
    # Whether the client hung up before a request was whole.
    cut: int = 0
    port: int = 0

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def requests(self, part: bytes = b"") -> list[bytes]:
        return [one for one in self.heard if part in one]

    def serve(self, connection: socket.socket) -> None:
        with connection:
            while (request := self._request(connection)) is not None:
                self.heard.append(request)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    return
                connection.sendall(answer)
                if b"Connection: close" in answer:
                    return

    def _request(self, connection: socket.socket) -> bytes | None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65536)):
                self.cut += bool(data)
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        chunked = b"chunked" in fields.get(b"transfer-encoding", b"")
        length = int(fields.get(b"content-length", b"0"))
        whole = bytearray(body)
        while not whole.endswith(b"0\r\n\r\n") if chunked else len(whole) < length:
            if not (more := connection.recv(1 << 20)):
                self.cut += 1
                return None
            whole += more
        return head + b"\r\n\r\n" + bytes(whole)


@contextmanager
def recorder(*answers: bytes | None) -> Iterator[Recorder]:
    found = Recorder(list(answers) or [OK])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found.port = listening.getsockname()[1]

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=found.serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield found
        listening.shutdown(socket.SHUT_RDWR)


def talk(uri: str, data: bytes, *, hang_up: bool = False, half: bool = False) -> bytes:
    """What a server answers to these bytes until it closes the connection. `half`: there will be no more of them."""
    host, _, port = uri.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(data)
        if hang_up:
            return b""
        if half:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        while more := connection.recv(65536):
            found += more
        return found
