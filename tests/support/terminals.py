"""A command as a process of its own on a terminal of a given size, with a person who waits for words and types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

CTRL_C, CTRL_D = "\x03", "\x04"
SPINNING = re.compile("[\u2800-\u28ff] ")
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """`lakewarden …` on a pseudo-terminal. `text` is what came out of it so far, with everything that steers removed."""

    def __init__(
        self, *words: str, cwd: Path, columns: int = 80, rows: int = 24, env: Mapping[str, str] | None = None
    ) -> None:
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        environment.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lakewarden", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.raw = b""
        self.began = time.monotonic()

    @property
    def text(self) -> str:
        return CONTROLS.sub("", self.raw.decode(errors="replace")).replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        """Lines as they stay, without those that were drawn again and again and then wiped out."""
        lines = (line.rsplit("\r", 1)[-1].rstrip() for line in self.text.splitlines())
        return [line for line in lines if not SPINNING.match(line)]

    def wait_for(self, words: str, seconds: float = 60.0) -> float:
        """Wait until they are there; how long that took since the start."""
        deadline = time.monotonic() + seconds
        while words not in self.text:
            assert self._more(deadline), f"{words!r} never came; there was:\n{self.text}"
        return time.monotonic() - self.began

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def end(self, seconds: float = 120.0) -> int:
        """Wait for the end of the process; its exit code."""
        deadline = time.monotonic() + seconds
        try:
            while self._more(deadline):
                pass
            return self.process.wait(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"it did not end; there was:\n{self.text}") from error
        finally:
            self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1

    def _more(self, deadline: float) -> bool:
        """Take what comes next. False at the end, and when time is up."""
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            some = os.read(self._terminal, 65536)
        except OSError:  # Nobody has the terminal open any more.
            return False
        self.raw += some
        return bool(some)
