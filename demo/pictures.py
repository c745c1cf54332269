"""Takes the pictures of docs/how-to/pages.md: serves the demo's lake, works with it in a browser as people do, and looks.

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
WIDE, HIGHEST = 1180, 1250  # pixels: a picture in a manual is no scroll
OF_A_LIST = 900  # of a list that goes on alike
TABLE, REFUSED = "demo.web.clicks", "demo.shop.baskets"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ADDRESS = f"http://127.0.0.1:{PORT}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
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
    _until(page, "/runs", "look at the fleet", gone="queued")
    _picture(page, "/", out / "overview.png")
    for name in ("tables", "schedule", "compaction", "branches"):
        _picture(page, f"/{name}", out / f"{name}.png")
    _picture(page, "/plans", out / "plans.png", highest=OF_A_LIST)
    _picture(page, f"/tables/{TABLE}", out / "table.png")
    _picture(page, f"/tables/{TABLE}", out / "table-policy.png", "#history")
    _picture(page, f"/tables/{REFUSED}", out / "refused.png")
    plan = _apply(page, out)
    _explain(page, plan)
    _picture(page, page.url, out / "audit.png")
    dark = _opened(browser, tokens["operator"], color_scheme="dark")
    _picture(dark, "/", out / "overview-dark.png")
    narrow = _opened(browser, tokens["operator"], viewport={"width": 400, "height": 800})
    _picture(narrow, "/", out / "overview-narrow.png")


def _apply(page: Page, out: Path) -> str:
    """Agree with the plan that waits, look while it is at work and when it is over; the plan's address."""
    page.goto("/plans")
    page.locator("tr", has_text="to approve").locator("a").first.click()
    plan = page.url
    _picture(page, plan, out / "plan.png")
    page.get_by_role("button", name="Approve").click()
    request = page.url
    page.locator("dt:has-text('Run') + dd a").click(timeout=SECONDS * 1000)
    run = page.url
    expect(page.locator("progress")).to_be_visible(timeout=SECONDS * 1000)
    _picture(page, run, out / "run-at-work.png")
    _picture(page, "/leases", out / "leases.png")
    page.goto(request)
    expect(page.locator("#state")).to_contain_text("done", timeout=SECONDS * 1000)
    _picture(page, request, out / "request.png")
    _picture(page, run, out / "run.png")
    return plan


def _explain(page: Page, plan: str) -> None:
    """The fate of a file that the plan took away."""
    page.goto(f"{plan}?verdict=orphan")
    page.locator("#files ~ * th.uri a").first.click()
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#state")).to_contain_text("done", timeout=SECONDS * 1000)
    page.get_by_role("link", name="To the file's fate").click()


def _opened(browser: Browser, token: str, **options: object) -> Page:
    page = browser.new_context(base_url=ADDRESS, **{"viewport": {"width": WIDE, "height": 800}, **options}).new_page()  # type: ignore[arg-type]
    page.goto("/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    return page


def _until(page: Page, path: str, words: str, gone: str) -> None:
    """Load a page until it tells something, and something else no more."""
    for _ in range(SECONDS):
        page.goto(path)
        text = page.locator("main").text_content() or ""
        if words in text and gone not in text:
            return
        page.wait_for_timeout(1000)
    raise SystemExit(f"{path} never told: {words}")


def _picture(page: Page, path: str, file: Path, begin: str = "", highest: int = HIGHEST) -> None:
    """The whole page as far as it fits, or from an element on."""
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({**size, "height": 800})  # type: ignore[typeddict-item]
    page.goto(path)
    high = int(page.evaluate("document.documentElement.scrollHeight"))
    # The navigation is as high as the window: in a picture, as high as the page.
    page.set_viewport_size({**size, "height": high})  # type: ignore[typeddict-item]
    top = int(page.locator(begin).bounding_box()["y"]) - 40 if begin else 0  # type: ignore[index]
    clip = {"x": 0, "y": top, "width": size["width"], "height": min(high - top, highest)}
    page.screenshot(path=file, clip=clip)  # type: ignore[arg-type]


if __name__ == "__main__":
    raise SystemExit(main())
