"""A way to write a configuration file and load it with a given environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakewarden.settings import Settings, load_settings

Load = Callable[..., Settings]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.chdir(tmp_path)

    def load(text: str = "", **env: str) -> Settings:
        file = tmp_path / "lakewarden.toml"
        file.write_text(text)
        return load_settings(str(file), env)

    return load
