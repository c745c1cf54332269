"""Takes the pictures of docs/how-to/pages.md: serves a small lake, works with it in a browser as people do, and looks.

python -m demo.pictures --out docs/pictures/service
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

PORT = 8796
SECONDS = 240
HIGHEST = 1250  # pixels: a picture in a manual is no scroll
TABLE = "demo.shop.orders"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ADDRESS = f"http://127.0.0.1:{PORT}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "demo.serve", "--dir", f"{folder}/lake", "--port", str(PORT)]
        serving = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            tokens = _tokens(serving)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=next(filter(None, map(shutil.which, CHROMIUM))), args=["--no-sandbox"]
                )
                take(browser, tokens, out)
                browser.close()
        finally:
            serving.terminate()
            serving.wait(60)
    return 0


def _tokens(serving: subprocess.Popen[str]) -> dict[str, str]:
    """What `make serve` says: a token for each role, and then that it serves."""
    found: dict[str, str] = {}
    assert serving.stderr is not None
    for line in serving.stderr:
        if told := re.match(r"Log in as (\w+): (\S+)", line):
            found[told[1]] = told[2]
        if "serves http" in line:
            return found
    raise SystemExit("the service did not start")


def take(browser: Browser, tokens: dict[str, str], out: Path) -> None:
    """Every page with what happened on it."""
    page = _opened(browser, tokens["approver"])
    _until(page, "/plans", "to approve")
    _until(page, "/compaction", "By the newest plan")
    _picture(page, "/", out / "overview.png")
    page.goto("/plans")
    page.locator("tr", has_text="to approve").locator("a").first.click()
    plan = page.url
    _picture(page, plan, out / "plan.png")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#state")).to_contain_text("done", timeout=SECONDS * 1000)
    _picture(page, page.url, out / "request.png")
    page.locator("dt:has-text('Run') + dd a").click()
    _picture(page, page.url, out / "run.png")
    _count(page)
    page.goto("/")
    page.get_by_role("button", name="Look again").click()
    expect(page.locator("#state")).to_contain_text("done", timeout=SECONDS * 1000)
    _picture(page, f"/tables/{TABLE}", out / "table.png")
    _explain(page, plan)
    _picture(page, page.url, out / "audit.png")
    for name in ("tables", "schedule", "compaction", "branches"):
        _picture(page, f"/{name}", out / f"{name}.png")
    dark = _opened(browser, tokens["operator"], color_scheme="dark")
    _picture(dark, "/", out / "overview-dark.png")
    narrow = _opened(browser, tokens["operator"], viewport={"width": 400, "height": 800})
    _picture(narrow, "/", out / "overview-narrow.png")


def _count(page: Page) -> None:
    page.goto(f"/tables/{TABLE}")
    page.get_by_role("button", name="Count").click()
    expect(page.locator("#state")).to_contain_text("done", timeout=SECONDS * 1000)


def _explain(page: Page, plan: str) -> None:
    """The fate of a file that the plan took away."""
    page.goto(f"{plan}?verdict=orphan")
    page.locator("#files ~ * th.uri a").first.click()
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#state")).to_contain_text("done", timeout=SECONDS * 1000)
    page.get_by_role("link", name="To the file's fate").click()


def _opened(browser: Browser, token: str, **options: object) -> Page:
    page = browser.new_context(base_url=ADDRESS, **{"viewport": {"width": 1180, "height": 800}, **options}).new_page()  # type: ignore[arg-type]
    page.goto("/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    return page


def _until(page: Page, path: str, words: str) -> None:
    """Load a page until it tells something."""
    for _ in range(SECONDS):
        page.goto(path)
        if words in page.locator("main").inner_text():
            return
        page.wait_for_timeout(1000)
    raise SystemExit(f"{path} never told: {words}")


def _picture(page: Page, path: str, file: Path) -> None:
    page.goto(path)
    wide, high = page.evaluate("[innerWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": wide, "height": min(high, HIGHEST)}
    page.screenshot(path=file, full_page=True, clip=clip)  # type: ignore[arg-type]


if __name__ == "__main__":
    raise SystemExit(main())
