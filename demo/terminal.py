"""How the demo speaks: titles, real commands with their output as it comes, and promises that must hold."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path


class DemoError(Exception):
    """Something the demo promises did not hold."""


def title(text: str) -> None:
    print(f"\n── {text} " + "─" * max(3, 96 - len(text)), flush=True)


def say(*lines: str) -> None:
    for line in lines:
        print(f"  {line}", flush=True)


def run(*arguments: str, allowed: tuple[int, ...] = (0,)) -> None:
    """One real command, shown as a user would type it, its output as it comes."""
    shown = shlex.join([".venv/bin/lakewarden", *(short(Path(a)) if a.startswith("/") else a for a in arguments)])
    print(f"$ {shown}", flush=True)
    done = subprocess.run([str(Path(sys.executable).parent / "lakewarden"), *arguments], check=False)
    print(flush=True)
    expect(done.returncode in allowed, f"`{shown}` ended with {done.returncode}")


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DemoError(otherwise)


def expect_same(gone: set[Path], wanted: set[Path]) -> None:
    """Exactly these files must be gone."""
    left, extra = [sorted(str(path) for path in paths)[:5] for paths in (wanted - gone, gone - wanted)]
    expect(gone == wanted, f"the wrong files went. Should have gone: {left}; should be there: {extra}")


def short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
