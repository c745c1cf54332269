"""Two looks at a file are as far apart as a test says, and no further."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewarden.model.margins import MARGINS
from lakewarden.steps.observe import presence


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "MARGINS", replace(MARGINS, second_look_seconds=0.0))
