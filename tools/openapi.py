"""Writes docs/openapi.json, the description of the REST API, from the routes themselves: `python -m tools.openapi`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from lakewarden.model.clock import SystemClock
from lakewarden.service.app import create_app
from lakewarden.service.service import service_of
from lakewarden.settings import load_settings

PAGE = Path(__file__).parents[1] / "docs" / "openapi.json"


def described() -> dict[str, Any]:
    """The description that a service gives of itself."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "lakewarden.toml")
        config.write_text(f'[state]\nlocation = "file://{folder}/state"\n', encoding="utf-8")
        service = service_of(load_settings(str(config), env={}), SystemClock())
        try:
            return create_app(service).openapi()
        finally:
            service.warden.close()


def text_of(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text_of(described()), encoding="utf-8")
