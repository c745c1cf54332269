"""Every page can be read: by everybody, in light and dark, by keyboard, on paper, and without JavaScript."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from lakewarden.model.service import Role
from tests.service.pages.conftest import Open, Site
from tests.service.pages.places import places

SERIOUS = ("serious", "critical")
# Pages that between them show every colour there is.
COLOURS = ("overview", "tables", "refused table", "waiting plan", "run", "request", "schedule", "log in", "not found")


@pytest.mark.parametrize(("scheme", "rules"), [("light", None), ("dark", ["color-contrast"])])
def test_axe_finds_nothing_serious_on_any_page(look: Open, site: Site, scheme: str, rules: list[str] | None) -> None:
    """In the dark only colours are others."""
    page, axe, found = look("/", Role.APPROVER, color_scheme=scheme), Axe(), []
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    for name, path in places(site.ids).items():
        if rules and name not in COLOURS:
            continue
        page.goto(path)
        if not rules:
            # What is folded up is looked at too.
            page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
        for one in axe.run(page, options=options).response["violations"]:
            if one["impact"] in SERIOUS:
                found.append((name, one["id"], one["nodes"][0]["html"][:200]))
    assert not found


def test_every_page_reads_without_javascript(look: Open, site: Site) -> None:
    page = look("/", Role.APPROVER, java_script_enabled=False)
    for name, path in places(site.ids).items():
        page.goto(path)
        assert page.locator("main h1").inner_text(), name
        assert page.locator("main").inner_text().count("\n") > 1, name


def test_no_page_is_wider_than_a_telephone(look: Open, site: Site) -> None:
    page = look("/", Role.APPROVER, viewport={"width": 400, "height": 800})
    for name, path in places(site.ids).items():
        page.goto(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 400, (name, wide)


def test_no_list_is_cut_on_a_lap(look: Open, site: Site) -> None:
    """A list that is wider than its place can be moved sideways, but nobody sees what is out of sight."""
    page, cut = look("/", Role.APPROVER, viewport={"width": 1180, "height": 800}), {}
    for name, path in places(site.ids).items():
        page.goto(path)
        over = page.eval_on_selector_all(".wide", "all => all.map(one => one.scrollWidth - one.clientWidth)")
        if any(pixels > 0 for pixels in over):
            cut[name] = over
    assert not cut


def test_no_table_is_cut_on_a_telephone(look: Open, site: Site) -> None:
    """Nobody sees there that there is more beside what fits. A graph of tables is a picture, and may be moved."""
    page, cut = look("/", Role.APPROVER, viewport={"width": 390, "height": 800}), {}
    for name, path in places(site.ids).items():
        page.goto(path)
        over = page.eval_on_selector_all(
            ".wide:has(> table)",
            "all => all.map(one => [one.getAttribute('aria-label'), one.scrollWidth - one.clientWidth])",
        )
        if wider := [(told, pixels) for told, pixels in over if pixels > 0]:
            cut[name] = wider
    assert not cut


def test_the_keyboard_reaches_the_content_first_and_then_the_pages_in_order(look: Open) -> None:
    page = look("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    assert page.locator(".skip").is_visible()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.goto("/")
    names = []
    for _ in range(6):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent.trim().split(/\\s+/)[0]"))
    assert names == ["To", "Lakewarden", "Overview", "Tables", "Plans", "Runs"]
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_a_page_prints_without_its_navigation(look: Open) -> None:
    page = look("/tables")
    page.emulate_media(media="print")
    assert not page.locator(".side").is_visible()
    assert page.locator("table.fleet").is_visible()
