"""The pictures of the manual: each is there, is shown, and is taken anew from the demo's lake."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "pictures" / "service"
PAGE = ROOT / "docs" / "how-to" / "pages.md"
LARGEST = 250_000  # bytes: a manual is read by telephone too


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.png")}


def test_every_picture_is_shown_and_small() -> None:
    shown = set(re.findall(r"pictures/service/([\w-]+\.png)", PAGE.read_text("utf-8")))
    assert shown == names_in(FOLDER)
    assert {path.name: path.stat().st_size for path in FOLDER.glob("*.png") if path.stat().st_size > LARGEST} == {}


@pytest.mark.soak
def test_the_demo_takes_every_picture(tmp_path: Path, chromium: object, java: None) -> None:
    """`make serve` in a browser: a week passes, a plan is approved and watched, a file's fate is asked for."""
    subprocess.run([sys.executable, "-m", "demo.pictures", "--out", str(tmp_path)], cwd=ROOT, check=True, timeout=900)
    assert names_in(tmp_path) == names_in(FOLDER)
