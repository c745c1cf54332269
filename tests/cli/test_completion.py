"""Shell completion: the script of each shell, and what it is answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def run(words: list[str], home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", **env}
    command = [sys.executable, "-m", "lakewarden", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=home)


def completions(line: str, home: Path) -> list[str]:
    """What bash is answered for a line whose last word is to be completed."""
    words = line.split(" ")
    place = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_LAKEWARDEN_COMPLETE": "complete_bash"}
    done = run([], home, **place)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "#compdef lakewarden"), ("fish", "complete")]
)
def test_each_shell_has_its_script(tmp_path: Path, shell: str, word: str) -> None:
    done = run(["--show-completion", shell], tmp_path)
    assert done.returncode == 0, done.stderr
    assert word in done.stdout
    assert "lakewarden" in done.stdout
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.stdout, text=True, timeout=30).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_is_installed_for_its_user(tmp_path: Path, shell: str) -> None:
    done = run(["--install-completion", shell], tmp_path)
    assert done.returncode == 0, done.stderr
    assert any("lakewarden" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("lakewarden pl", {"plan"}),
        ("lakewarden plan --sel", {"--select"}),
        ("lakewarden --outp", {"--output"}),
        ("lakewarden runs --output ", {"text", "json"}),
        ("lakewarden audit ", {"who", "verify"}),
        ("lakewarden --config x.toml ru", {"run", "runs"}),
        ("lakewarden plan orph", {"orphan-cleanup", "orphans"}),
        ("lakewarden plan a", {"all"}),
    ],
)
def test_commands_options_values_and_jobs_are_completed(tmp_path: Path, line: str, some: set[str]) -> None:
    assert some <= set(completions(line, tmp_path))
