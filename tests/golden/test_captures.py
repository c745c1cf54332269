"""Pictures of real terminals for the documents, made by tmux at 80×24 and 120×40, and kept true: each is made anew and compared."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.golden.lake import GoldenLake
from tests.golden.pictures import picture
from tests.golden.scenes.running import SECTIONS
from tests.golden.tmux import Terminal, need_tmux, terminal

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SIZES = ((80, 24), (120, 40))
HOW = "make it anew with: pytest tests/golden --update-golden, and look at it"


_PIECE = re.compile(r"<text[^>]*-line-(\d+)\)[^>]*>(.*?)</text>", re.DOTALL)
# Spark starts beside the other steps, and a step that goes on may be caught in the middle.
_BY_CHANCE = re.compile("start Spark|[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")


def lines_of(svg: str) -> list[str]:
    """The words of a picture, line by line, but for what is there or elsewhere by chance."""
    found: dict[str, str] = {}
    for number, words in _PIECE.findall(svg):
        found[number] = found.get(number, "") + html.unescape(words).replace("\xa0", " ")
    lines = (line.strip() for line in found.values())
    return sorted(line for line in lines if line and not _BY_CHANCE.search(line))


@dataclass(frozen=True)
class Camera:
    """A terminal of one size in the lake's directory, whose pictures are compared or kept."""

    screen: Terminal
    size: tuple[int, int]
    base: Path
    update: bool

    def take(self, name: str, text: str) -> None:
        assert "Traceback" not in text, text
        columns, rows = self.size
        path = FOLDER / f"{name}-{columns}x{rows}.svg"
        found = picture(text, f"{name}-{columns}", columns, str(self.base))
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found, encoding="utf-8")
        assert path.exists(), f"{path} is missing; {HOW}"
        kept = path.read_text(encoding="utf-8")
        assert lines_of(found) == lines_of(kept), f"{path} shows something else; if that is right, {HOW}"

    def command(self, name: str, line: str) -> None:
        """A picture of a command when it is over."""
        self.take(name, self.screen.run(line))
        self.screen.clear()


@pytest.fixture(scope="module")
def lake() -> Iterator[GoldenLake]:
    need_tmux()
    with GoldenLake.built() as made:
        yield made


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def camera(request: pytest.FixtureRequest, lake: GoldenLake, update_golden: bool) -> Iterator[Camera]:
    lake.at("new")
    columns, rows = request.param
    (lake.base / "go-on").unlink(missing_ok=True)
    settings = {f"LAKEWARDEN_{section.upper()}__ENABLED": "true" for section in SECTIONS}
    settings |= {f"LAKEWARDEN_{section.upper()}__DRY_RUN": "false" for section in SECTIONS}
    settings["GOLDEN_PAUSE"] = f"{lake.base}/go-on:2"
    with terminal(lake.base, columns, rows, settings) as made:
        yield Camera(made, (columns, rows), lake.base, update_golden)


def test_pictures(camera: Camera, lake: GoldenLake, java: None) -> None:
    """A person's first hour: look, plan, apply, look again, and let a whole night run."""
    camera.command("forecast", "lakewarden forecast --select 'lake.*'")
    camera.command("plan", "lakewarden plan orphans --out plan")
    camera.command("doctor", "lakewarden doctor")
    camera.screen.type("lakewarden apply plan --yes")
    # An estimate is made after two seconds; the apply waits behind its second batch for this picture.
    camera.screen.wait(lambda text: "left" in text)
    camera.take("apply", camera.screen.coloured())
    (lake.base / "go-on").touch()
    camera.screen.wait(lambda text: text.endswith("\n$"))
    camera.screen.clear()
    camera.command("run-all", "lakewarden run all")
