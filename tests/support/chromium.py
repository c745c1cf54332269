"""A real browser: the system's own Chromium, one for each process of the tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.missing import missing

NAMES = ("chromium", "chromium-browser", "google-chrome")


class ChromiumMissingError(Exception):
    """No Chromium is installed here."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser. Without one the test is skipped; on CI that is a failure."""
    place = next(filter(None, map(shutil.which, NAMES)), None)
    if place is None:
        missing(
            ChromiumMissingError("there is no Chromium on this machine; tools/chromium.sh installs it where it may")
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield browser
        browser.close()
