"""How the demo speaks: a few lines on the screen, everything in a log, and promises that must hold."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

WIDTH = 80
TIME = 6


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
        shown = f"$ {shlex.join(['lakewarden', *arguments])}"
        _print(shown, end="")
        program = str(Path(sys.executable).parent / "lakewarden")
        began = time.monotonic()
        done = subprocess.run(
            [program, *arguments],
            cwd=self._base,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        took = f"{time.monotonic() - began:.1f} s"
        _print(took.rjust(max(TIME, WIDTH - len(shown))))
        self._write(shown, done.stdout.rstrip("\n"), "")
        expect(done.returncode in allowed, f"`{shown[2:]}` ended with {done.returncode}; see {short(self.log)}")
        return done.returncode

    def _both(self, line: str) -> None:
        _print(line)
        self._write(line)

    def _write(self, *lines: str) -> None:
        self._log.writelines(f"{line}\n" for line in lines)
        self._log.flush()


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
