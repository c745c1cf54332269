"""Lakewarden as other people have it: a wheel, installed into an environment of its own, far from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

# What would lead a process back to the checkout, or to the environment that the tests run in.
LEADING_BACK = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYTHONSTARTUP")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout by the build backend that pyproject.toml names; nothing is downloaded."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("lakewarden-*.whl")
    return built


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it, and commands run there as anybody would run them."""

    environment: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    def run(self, *arguments: str, cwd: Path, program: str = "lakewarden") -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name not in LEADING_BACK}
        env["PATH"] = f"{self.environment / 'bin'}{os.pathsep}{env['PATH']}"
        command = [str(self.environment / "bin" / program), *arguments]
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel by pip in a new environment. Its requirements are those of the tests' own environment: they are named in a
    .pth file, whose directories Python reads without the .pth files in them, so the checkout is not among them."""
    environment = tmp_path_factory.mktemp("elsewhere") / "environment"
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", str(environment)], check=True, timeout=120)
    found = Installed(environment)
    pip = found.run("-m", "pip", "install", "--no-deps", "--no-index", str(wheel), cwd=environment, program="python")
    assert pip.returncode == 0, pip.stderr
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "requirements.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return found


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that has nothing of the checkout."""
    place = tmp_path / "away"
    place.mkdir()
    return place


Run = Callable[..., subprocess.CompletedProcess[str]]
