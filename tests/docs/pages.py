"""The documentation as the tests read it: pages, sections, tables, fenced blocks, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language and text."""

    language: str
    text: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of these languages, or all of them."""
    found = [Block(language, text) for language, text in _FENCE.findall(text_of(page))]
    return [block for block in found if not languages or block.language in languages]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", text_of(page))


def sections(page: Path, level: int = 2) -> dict[str, str]:
    """The text below each heading of one level, by heading. Headings inside fenced blocks do not count."""
    marks = "#" * level
    found: dict[str, str] = {}
    heading = None
    fenced = False
    for line in text_of(page).splitlines():
        fenced ^= line.startswith("```")
        if not fenced and line.startswith(f"{marks} "):
            heading = line.removeprefix(f"{marks} ").strip()
            assert heading not in found, f"{name_of(page)} has two sections {heading!r}"
            found[heading] = ""
        elif heading is not None:
            found[heading] += line + "\n"
    return found


def rows(text: str, first_heading: str) -> Iterator[list[str]]:
    """The rows of every table in `text` whose first column has this heading."""
    wanted = False
    for line in text.splitlines():
        if not line.startswith("|"):
            wanted = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0] == first_heading:
            wanted = True
        elif wanted and not set(line) <= set("|-: "):
            yield cells


def code_in(cell: str) -> str:
    """The first thing in backticks."""
    found = _CODE.search(cell)
    assert found is not None, f"nothing in backticks in {cell!r}"
    return found[1]


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
