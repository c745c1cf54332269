"""The report page in a real browser, where one is installed: light, dark and printed."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.reports.page.fleets import names, page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
    "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
)  # fmt: skip
PICTURE = Path(__file__).parents[3] / "docs" / "pictures" / "report.png"
AFTER_HEAD = 33  # a PNG's signature and its first chunk
LIGHT, DARK = "--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")


def browse(html: Path, *flags: str) -> None:
    profile = html.with_suffix(".profile")
    subprocess.run(
        [str(BROWSER), *FLAGS, f"--user-data-dir={profile}", *flags, html.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


def size_and_first_pixel(png: Path) -> tuple[int, int, tuple[int, ...]]:
    """Width, height, and the colour in the corner, which every filter of the format leaves as it is."""
    data = png.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    return width, height, tuple(zlib.decompressobj().decompress(packed, 4)[1:4])


def test_light_and_dark_are_drawn_with_their_own_ground(tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    html.write_text(page(names(60)), encoding="utf-8")
    found = {}
    for name, scheme in (("light", LIGHT), ("dark", DARK)):
        png = tmp_path / f"{name}.png"
        browse(html, scheme, "--window-size=1200,1600", f"--screenshot={png}")
        found[name] = size_and_first_pixel(png)
    assert found["light"] == (1200, 1600, (0xF6, 0xF7, 0xF9))
    assert found["dark"] == (1200, 1600, (0x10, 0x15, 0x1B))


def test_the_picture_in_the_docs_is_of_this_page(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A picture cannot be read, so it bears the digest of the page that it was taken of: a page of other words fails here."""
    html, png = tmp_path / "report.html", tmp_path / "report.png"
    html.write_text(page(names(60)), encoding="utf-8")
    digest = hashlib.sha256(html.read_bytes()).hexdigest().encode()
    if request.config.getoption("--update-golden"):
        browse(html, LIGHT, "--window-size=1200,2230", f"--screenshot={png}")
        drawn = png.read_bytes()
        PICTURE.write_bytes(drawn[:AFTER_HEAD] + chunk(b"tEXt", b"page\0" + digest) + drawn[AFTER_HEAD:])
    assert chunk(b"tEXt", b"page\0" + digest) in PICTURE.read_bytes(), (
        "write it anew with --update-golden, and look at it"
    )


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_it_can_be_printed(tmp_path: Path) -> None:
    html, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    html.write_text(page(names(200)), encoding="utf-8")
    browse(html, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert pdf.read_bytes().count(b"/Type /Page\n") > 1 or pdf.stat().st_size > 50_000
