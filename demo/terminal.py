"""How the demo speaks: a few lines on the screen, everything in a log, and promises that must hold."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WIDTH = 80
TIME = 7
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class DemoError(Exception):
    """Something the demo promises did not hold."""


class Terminal:
    """The screen, and the log that has the whole output of every command besides. Commands run where the lake lies."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._log = (base / "demo.log").open("w", encoding="utf-8")

    @property
    def log(self) -> Path:
        return Path(self._log.name)

    def title(self, text: str) -> None:
        self._both(f"── {text} " + "─" * max(3, WIDTH - 4 - len(text)))

    def say(self, *lines: str) -> None:
        for line in lines:
            self._both(f"  {line}")

    def held(self, *lines: str) -> None:
        """What was checked, and is so."""
        for line in lines:
            self._both(f"  ✓ {line}")

    def run(self, *arguments: str, allowed: tuple[int, ...] = (0,)) -> int:
        """One real command, as a user would type it: on the screen with the time it took, in the log with all it said."""
        return self.run_in_turn(arguments, allowed=allowed)

    def plan_and_apply(self, job: str, out: str, allowed: tuple[int, ...] = (0,)) -> int:
        """Both on one line. `allowed` are exit codes of the apply."""
        return self.run_in_turn(("plan", job, "--out", out), ("apply", out, "--yes"), allowed=allowed)

    def run_in_turn(self, *commands: tuple[str, ...], allowed: tuple[int, ...] = (0,)) -> int:
        shown = [shlex.join(["lakewarden", *arguments]) for arguments in commands]
        line = f"$ {' && '.join(shown)}"
        _print(line, end="")
        began = time.monotonic()
        codes = []
        for typed, arguments in zip(shown, commands, strict=True):
            codes.append(self._command(typed, arguments))
            if codes[-1] != 0:
                break
        took = f"{time.monotonic() - began:.1f} s"
        _print(took.rjust(max(TIME, WIDTH - len(line))))
        last = len(codes) == len(commands) and codes[-1] in allowed
        expect(last, f"`{shown[len(codes) - 1]}` ended with {codes[-1]}; see {short(self.log)}")
        return codes[-1]

    @contextmanager
    def listening(self, *arguments: str) -> Iterator[str]:
        """A command that goes on until it is told to end, and the address at which it listens."""
        shown = shlex.join(["lakewarden", *arguments])
        _print(f"$ {shown} &")
        began = subprocess.Popen(
            [_program(), *arguments], cwd=self._base, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert began.stdout is not None
        first = began.stdout.readline()
        try:
            found = _ADDRESS.search(first)
            expect(found is not None, f"`{shown}` said {first!r} and not where it listens")
            yield str(found and found[0])
        finally:
            began.terminate()
            rest = began.communicate(timeout=60)[0]
            self._write(f"$ {shown} &", (first + rest).rstrip("\n"), "")

    def _command(self, shown: str, arguments: tuple[str, ...]) -> int:
        done = subprocess.run(
            [_program(), *arguments],
            cwd=self._base,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self._write(f"$ {shown}", done.stdout.rstrip("\n"), "")
        return done.returncode

    def _both(self, line: str) -> None:
        _print(line)
        self._write(line)

    def _write(self, *lines: str) -> None:
        self._log.writelines(f"{line}\n" for line in lines)
        self._log.flush()


def _program() -> str:
    return str(Path(sys.executable).parent / "lakewarden")


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DemoError(otherwise)


def expect_same(gone: set[Path], wanted: set[Path]) -> None:
    """Exactly these files must be gone."""
    left, extra = [sorted(str(path) for path in paths)[:5] for paths in (wanted - gone, gone - wanted)]
    expect(gone == wanted, f"the wrong files went. Should have gone: {left}; should be there: {extra}")


def short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _print(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)
