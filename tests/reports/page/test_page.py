"""The report page: self-contained, harmless whatever a lake's names are, readable without colour, small for a large fleet."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lakewarden.ledger.switches import Freeze
from lakewarden.model.errors import LakewardenError, NotFoundError, UsageError
from lakewarden.reports.page import write
from tests.reports.page.fleets import NOW, facts_of, names, page
from tests.support.worlds import World, hand_plan

BLOCKS = {"p", "div", "details", "table", "ul", "ol", "dl", "section", "figure", "h1", "h2", "h3"}
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Tree(HTMLParser):
    """Every element of a page, in order, and the text of its body. Raises AssertionError where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # A browser ends a paragraph where a block begins, and the end tag that follows makes an empty one.
        assert not (tag in BLOCKS and "p" in self.open), f"<{tag}> in <p>"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.elements)


HOSTILE = [
    "lake.a.<script>alert(1)</script>",
    "lake.a.\"><img src=x onerror=alert(2)>",
    "lake.a.' onmouseover='alert(3)",
    "lake.a.{{ 7 * 7 }}{% raw %}",
    "lake.a.\u202egnp.exe\x1b[31m\x00",
    "lake.a." + "long" * 500,
    "lake.a.注文_ü_🦆",
    "lake.a.&lt;b&gt;",
]  # fmt: skip


def test_names_of_a_lake_are_text_and_nothing_else() -> None:
    text = page(HOSTILE * 1)
    tree = Tree(text)
    assert not {"script", "img", "iframe", "object", "link"} & {tag for tag, _ in tree.elements}
    assert not [name for _, attributes in tree.elements for name in attributes if name.startswith("on")]
    assert "\x1b" not in text
    assert "\x00" not in text
    assert "\u202e" not in text
    for name in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[3], HOSTILE[6], HOSTILE[7]):
        assert name in tree.text
    assert "49" not in re.findall(r"lake\.a\.(\S+)", tree.text)
    assert "longlong" in tree.text
    assert "(2,007 characters)" in tree.text


def test_the_page_needs_nothing_but_itself() -> None:
    text = page(names(30))
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_whoever_does_not_see_it_is_told_the_same() -> None:
    tree = Tree(page(names(60)))
    kinds = [tag for tag, _ in tree.elements]
    assert tree.count("caption") == tree.count("table") > 4
    assert kinds.count("h1") == 1
    levels = [int(tag[1]) for tag in kinds if re.fullmatch(r"h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for tag, attributes in tree.elements:
        if tag == "svg":
            assert attributes.get("aria-hidden") == "true" or attributes.get("role") == "img"
        if tag == "th":
            assert attributes.get("scope") in ("row", "col")
    ids = [attributes["id"] for _, attributes in tree.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labels = {attributes["aria-labelledby"] for _, attributes in tree.elements if "aria-labelledby" in attributes}
    assert labels <= set(ids)


def test_a_status_is_a_word_too() -> None:
    text = page(names(60))
    for kind, words in (("refused", "refused"), ("attention", "to look at"), ("healthy", "healthy")):
        found = re.findall(rf'<span class="status {kind}">.*?</span>([^<]*)</span>', text)
        assert found
        assert all(words in word for word in found)


def test_refused_tables_come_first_with_their_code_and_next_step() -> None:
    text = page(names(60))
    order = [
        text.index(f'<h2 id="{name}"') for name in ("health", "refused", "attention", "money", "forecast", "tables")
    ]
    assert order == sorted(order)
    assert "LW-TABLE-002" in text
    assert "Next: Restore the manifest from a backup" in text
    rows = re.findall(r'<tr><th scope="row"><bdi>.*?<span class="status (\w+)', text[order[-1] :])
    assert rows == sorted(rows, key=["refused", "attention", "healthy"].index)


def test_a_thousand_tables_are_one_row_each_and_below_two_megabytes() -> None:
    text = page(names(1000))
    assert len(text.encode()) < 2_000_000
    tree = Tree(text)
    assert tree.count("section") < 15
    assert text.count('<tr><th scope="row"><bdi>') == 1000


def test_beyond_two_thousand_tables_the_rest_is_counted() -> None:
    text = page(names(2100))
    assert "and 100 more tables" in text
    assert len(text.encode()) < 2_000_000


def test_a_fleet_of_none_has_a_page() -> None:
    tree = Tree(page([]))
    assert "Report on 0 tables" in tree.text
    assert "There is no table to show" in tree.text


def test_what_was_saved_is_said() -> None:
    said = Tree(page(names(5))).text
    assert "Freed in 30 days" in said
    assert "0.07 USD a month saved" in said


def test_without_the_forecast_the_page_says_so() -> None:
    assert "made without the forecast" in page(names(5), forecast=False)


def test_a_freeze_is_told_at_the_top() -> None:
    text = page(names(5), frozen=Freeze("ada", NOW - timedelta(hours=2), "a <b>migration</b>"))
    assert text.index("Frozen") < text.index('id="health"')
    assert "a &lt;b&gt;migration&lt;/b&gt;" in text


def test_a_real_lake_without_spark(world: World, tmp_path: Path) -> None:
    hand_plan(world)
    written = world.warden.report(str(tmp_path / "report.html"), with_forecast=False)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (written.tables, written.bytes) == (2, len(text.encode()))
    assert "lake.sales.orders" in Tree(text).text
    only = world.warden.report(str(tmp_path / "one.html"), select="lake.web.*", with_forecast=False)
    assert only.tables == 1
    with pytest.raises(NotFoundError, match=r"no table matches lake\.nobody; no report was written"):
        world.warden.report(str(tmp_path / "none.html"), select="lake.nobody", with_forecast=False)
    assert not (tmp_path / "none.html").exists()


def test_a_forecast_that_fails_is_told_and_the_rest_is_there(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise LakewardenError("no Java was found; nothing was changed", code="LW-SPARK-001", hint="Install Java 17.")

    monkeypatch.setattr(write, "forecast", fails)
    world.warden.report(str(tmp_path / "report.html"))
    text = Tree((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "The forecast could not be made: LW-SPARK-001 no Java was found" in text
    assert "Install Java 17." in text
    assert "lake.sales.orders" in text


def test_a_place_that_cannot_be_written_is_named_before_anything_is_read(world: World, tmp_path: Path) -> None:
    for out, words in ((tmp_path, "is a directory"), (tmp_path / "no" / "r.html", "is not there")):
        with pytest.raises(UsageError, match=words):
            world.warden.report(str(out))
    assert list(tmp_path.glob(".*html*")) == []


def test_secrets_are_not_shown() -> None:
    text = page(["lake.a.t"], frozen=Freeze("ada", NOW, "see https://u:hunter2@h"))
    assert "hunter2" not in text


def test_orphans_that_nobody_has_looked_for_are_unknown_and_not_none() -> None:
    unseen = {
        name: replace(facts_of(at, name), planned=False, live=None, orphans=None) for at, name in enumerate(names(5))
    }
    tree = Tree(page(names(5), facts=unseen))
    assert "Orphansunknownno plan has looked yet" in re.sub(r"\s*\n\s*", "", tree.text)
    [line] = re.findall(r"Orphans\s*unknown\s*unknown\s*unknown\s*(.*)", tree.text)
    assert line == "lakewarden plan orphans"
    assert "Orphans of the newest plans" not in tree.text


def test_the_figure_of_orphans_says_how_many_tables_it_leaves_out() -> None:
    assert "in plans not yet applied; 2 tables not looked at" in Tree(page(names(60))).text
    assert "not looked at" not in Tree(page(names(5))).text
