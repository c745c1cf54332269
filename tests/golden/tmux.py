"""A real terminal for pictures: a tmux session of so many columns and rows, with a shell in the lake's directory."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROMPT = "$ "
SECONDS = 120.0


def need_tmux() -> None:
    """Skip where tmux cannot be had; in CI no test may be skipped."""
    if shutil.which("tmux") is None:
        missing = "tmux is missing (tools/tmux.sh installs it where it may)"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing}, and in CI no test may be skipped")
        pytest.skip(missing)


@dataclass(frozen=True)
class Terminal:
    """One tmux server with one pane."""

    socket: str

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self.socket, "-f", "/dev/null", *words], capture_output=True, text=True, check=True
        )
        return done.stdout

    def type(self, line: str) -> None:
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def shown(self) -> str:
        """The screen and what has scrolled off it, as plain text."""
        return self.tmux("capture-pane", "-p", "-S", "-").rstrip("\n")

    def coloured(self) -> str:
        """The same with its colours, and with lines whole that the terminal had to break at its edge."""
        return self.tmux("capture-pane", "-e", "-J", "-p", "-S", "-").rstrip("\n ")

    def wait(self, until: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not until(self.shown()):
            assert time.monotonic() < deadline, self.shown()
            time.sleep(0.1)

    def run(self, line: str) -> str:
        """Type a command and wait until the shell asks for the next; what is on the screen since, with colours."""
        self.type(line)
        self.wait(lambda text: text.endswith(f"\n{PROMPT.strip()}"))
        return self.coloured().removesuffix(PROMPT.strip()).rstrip("\n")

    def clear(self) -> None:
        self.tmux("send-keys", "-R", "C-l")
        self.tmux("clear-history")
        self.wait(lambda text: text.strip() == PROMPT.strip())


@contextmanager
def terminal(directory: Path, columns: int, rows: int, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """A terminal whose shell knows `lakewarden`, ended with everything in it."""
    command = directory / "bin" / "lakewarden"
    command.parent.mkdir(exist_ok=True)
    python = f"{shlex.quote(sys.executable)} -m tests.golden.process"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(REPOSITORY))}:{shlex.quote(str(REPOSITORY / "src"))} exec {python} "$@"\n'
    )
    command.chmod(0o755)
    settings = {**environment, "PATH": f"{command.parent}:{os.environ['PATH']}", "LOGNAME": "ana", "LANG": "C.UTF-8"}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in settings.items()]
    started = command.with_name("started.sh")
    started.write_text("\n".join([*exports, f"PS1={shlex.quote(PROMPT)}", "unset HISTFILE", ""]))
    found = Terminal(f"golden-{uuid.uuid4().hex[:8]}")
    try:
        size = ("-x", str(columns), "-y", str(rows))
        found.tmux("new-session", "-d", *size, "-c", str(directory), f"bash --rcfile {started} -i")
        found.tmux("set-option", "-g", "history-limit", "5000")
        found.wait(lambda text: text.strip().endswith(PROMPT.strip()))
        found.clear()
        yield found
    finally:
        subprocess.run(["tmux", "-L", found.socket, "kill-server"], capture_output=True, check=False)
