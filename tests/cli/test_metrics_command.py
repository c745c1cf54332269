"""`lakewarden metrics` and the textfile that is written after each command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.cli.main import main
from tests.support.promtool import promtool

TOML = '[state]\nlocation = "{state}"\n[metrics]\ntextfile = "{textfile}"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "lakewarden.toml"
    file.write_text(TOML.format(state=(tmp_path / "state").as_uri(), textfile=tmp_path / "all.prom"))
    return file


def test_they_are_printed_written_and_told_as_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--config", str(config)]) == 0
    printed = capsys.readouterr().out
    assert "\nlakewarden_invariant_violations_total 0.0\n" in printed
    assert promtool("check", "metrics", given=printed.encode()) == (0, "")
    out = config.with_name("mine.prom")
    assert main(["metrics", "--config", str(config), "--out", str(out)]) == 0
    assert out.read_text() == printed
    assert sorted(path.name for path in config.parent.iterdir() if path.is_file()) == [
        "all.prom",
        "lakewarden.toml",
        "mine.prom",
    ], "no half-written file is left beside it"
    capsys.readouterr()
    assert main(["metrics", "--config", str(config), "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"sample": "lakewarden_invariant_violations_total", "value": "0.0"} in found["metrics"]


def test_every_command_leaves_the_textfile(config: Path) -> None:
    textfile = config.with_name("all.prom")
    assert main(["runs", "--config", str(config)]) == 0
    assert "lakewarden_build_info" in textfile.read_text()
    textfile.unlink()
    assert main(["runs", "nosuchrun", "--config", str(config)]) == 10
    assert textfile.exists(), "a command that failed too"


def test_a_textfile_that_cannot_be_written_fails_no_command(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.with_name("all.prom").mkdir()
    assert main(["runs", "--config", str(config)]) == 0
    assert "metrics not written" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["all.prom", "/var/lib/all.txt"])
def test_a_textfile_nobody_would_read_is_a_mistake(config: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(f'[metrics]\ntextfile = "{path}"\n')
    assert main(["runs", "--config", str(config)]) == 64
    assert "metrics.textfile" in capsys.readouterr().err
