"""Commands run in this process, against a worker in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from lakewarden.cli import worker
from lakewarden.cli.main import main
from lakewarden.model.plan import Tally
from lakewarden.model.run import FailedFile, RunResult, RunStatus
from tests.cli.fake_warden import FakeWarden


@dataclass
class Answer:
    """What one command returned and printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def warden(monkeypatch: pytest.MonkeyPatch) -> FakeWarden:
    fake = FakeWarden()
    monkeypatch.setattr(worker, "open_worker", lambda shared: fake)
    return fake


@pytest.fixture
def lakewarden(warden: FakeWarden, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def run(*arguments: str) -> Answer:
        code = main(arguments)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def partial() -> RunResult:
    failed = (FailedFile("s3://b/x", "LW-STORE-001", "denied"),)
    changed, deleted, kept = {"files": 2}, Tally(2, 2048), {"changed": 4}
    return RunResult(
        "run-2", "plan-1", "orphan-cleanup", RunStatus.PARTIAL, changed, deleted, absent=1, kept=kept, failed=failed
    )
