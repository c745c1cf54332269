"""A service that listens on a free port, with a ledger full of content, and browsers that look at it in a role."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from lakewarden.model.service import Role
from lakewarden.service.access import COOKIE
from lakewarden.service.app import create_app
from lakewarden.service.service import Service
from tests.service.pages.fleet import fill
from tests.support.service import service_in

expect.set_options(timeout=10_000)
PATIENCE = 10_000  # milliseconds that a page may take on a machine with other work


@dataclass
class Site:
    """A service as browsers see it."""

    service: Service
    address: str
    ids: dict[str, str]

    def session(self, role: Role, name: str | None = None) -> str:
        """The cookie of somebody who has logged in."""
        tokens, name = self.service.ledger.tokens, name or f"{role}-bob"
        known = next((one for one in tokens.list() if one.name == name), None)
        token = known or tokens.check(tokens.create(name, role, created_by="test"))
        assert token is not None
        return tokens.open_session(token)[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dozen tables, plans, runs and requests, made directly."""
    folder = tmp_path_factory.mktemp("site")
    service = service_in(folder, "[orphan_cleanup]\nenabled = true\n")
    ids = fill(service, folder / "plans", 12)
    yield from served(service, ids)


def served(service: Service, ids: dict[str, str]) -> Iterator[Site]:
    """A service at work on a port of its own."""
    server = uvicorn.Server(uvicorn.Config(create_app(service), "127.0.0.1", 0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Site(service, f"http://127.0.0.1:{port}", ids)
    server.should_exit = True
    thread.join(10)
    service.ledger.close()


Open = Callable[..., Page]


@pytest.fixture
def look(chromium: Browser, site: Site) -> Iterator[Open]:
    """Opens a page as somebody of a role; whatever the browser complains of fails the test."""
    with_pages = Opener(chromium, site)
    yield with_pages
    with_pages.close()
    assert not with_pages.complaints, with_pages.complaints


class Opener:
    def __init__(self, browser: Browser, site: Site) -> None:
        self._browser, self._site = browser, site
        self.complaints: list[str] = []
        self._contexts: list[BrowserContext] = []

    def __call__(
        self, path: str = "/", role: Role | None = Role.VIEWER, *, name: str | None = None, **options: Any
    ) -> Page:
        context = self._browser.new_context(base_url=self._site.address, **options)
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        if role is not None:
            cookie = {"name": COOKIE, "value": self._site.session(role, name), "url": self._site.address}
            context.add_cookies([cookie])  # type: ignore[list-item]
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"{path}: {error}"))
        page.goto(path)
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        # A page that is refused is told by the browser as an error too; tests look at what such a page says.
        if message.type in ("error", "warning") and "the server responded with a status of 4" not in message.text:
            self.complaints.append(message.text)

    def close(self) -> None:
        for context in self._contexts:
            context.close()
