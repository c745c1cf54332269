"""Every link leads somewhere, every page can be found, and every file of ours that is named exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, name_of, prose, text_of

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SOURCE = re.compile(r"`((?:src|tests|demo|bench|docs)/[\w./-]+)`")


def links(page: Path) -> list[str]:
    return [link for link in _LINK.findall(prose(page)) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{link} is not a file"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_sources_exist(page: Path) -> None:
    for path in _SOURCE.findall(text_of(page)):
        assert (ROOT / path).exists() or path == "bench/results/", f"{path} does not exist"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md", DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
            waiting += [target for target in targets if target.suffix == ".md"]
    assert set(PAGES) <= seen, f"nothing links to {[name_of(page) for page in set(PAGES) - seen]}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_path_of_one_machine(page: Path) -> None:
    found = re.findall(r"(?:/home/|/root/|/Users/|/work/|/tmp/)\S*", text_of(page))
    assert not found


def test_design_pages_have_one_shape() -> None:
    pages = sorted((DOCS / "design").glob("[0-9]*.md"))
    numbers = [page.name[:4] for page in pages]
    assert len(set(numbers)) == len(numbers), "a number names one page"
    for page in pages:
        headings = re.findall(r"^## (.+)$", text_of(page), re.MULTILINE)
        assert headings == ["Goal", "Hazard", "Decision", "Alternatives", "Where"], name_of(page)
