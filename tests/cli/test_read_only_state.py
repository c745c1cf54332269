"""Commands that only read work for somebody who may read the state and not write to it: a colleague, an auditor, a backup."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakewarden
from lakewarden.ledger.disk import may_only_be_read
from tests.support.deployments import Deployed

# Root may write everywhere; without this power, its files are like anybody's.
LIKE_ANYBODY = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
READING = (["runs", "RUN"], ["doctor"], ["audit", "verify"])


@pytest.fixture
def config(tmp_path: Path) -> str:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    SqlCatalog("lake", **properties).close()
    return str(Deployed(tmp_path, {"lake": properties}).config("lakewarden.toml"))


def lakewarden_says(*words: str) -> tuple[int, str, str]:
    command = [*LIKE_ANYBODY, sys.executable, "-m", "lakewarden", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_reading_commands_read_and_the_others_say_that_they_may_not_write(config: str) -> None:
    with lakewarden.open(config) as warden:
        warden.freeze(warden.actor(), "month end")
        run = "62927694d72339a6"
        state = Path(warden._settings.state.local_path or "")
        warden._deployment.ledger.runs.start(run, "orphan-cleanup", None, warden.actor())
    folders = [state, *(place for place in state.rglob("*") if place.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        for words in READING:
            asked = [run if word == "RUN" else word for word in words]
            code, _, err = lakewarden_says(*asked, "--config", config)
            assert (code, err) == (0, ""), (words, err)
        code, out, _ = lakewarden_says("runs", "--config", config, "--output", "json")
        assert [found["run_id"] for found in json.loads(out)["runs"]] == [run]
        code, _, err = lakewarden_says("unfreeze", "--config", config)
        assert code == 1
        assert err.startswith("LW-STATE-005 ")
    finally:
        for folder in folders:
            folder.chmod(0o755)
    with lakewarden.open(config) as warden:
        assert warden.doctor()["frozen"], "nothing was unfrozen"


def test_a_database_with_a_writer_at_work_is_read_together_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    database = tmp_path / "x.db"
    assert not may_only_be_read(database)
    database.touch()
    assert may_only_be_read(database)
    (tmp_path / "x.db-wal").touch()
    assert not may_only_be_read(database)
