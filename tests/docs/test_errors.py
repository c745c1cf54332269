"""Every code has a page, every page has a code, and both say the same exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakewarden.formats.iceberg.metadata.strangers import Standing
from lakewarden.model import errors
from lakewarden.model.brakes import CODES
from lakewarden.model.errors import BRAKE_REFUSALS, DOUBT_REFUSALS, ROOT_REFUSALS, Exit, LakewardenError
from lakewarden.model.stop import Stopped
from lakewarden.model.verdict import Brake, Outcome, Verdict
from tests.docs.pages import DOCS, ROOT, code_in, name_of, rows, sections, text_of

_CODE = re.compile(r"\bLW-[A-Z]+-\d{3}\b")
CLASSES = {
    found.code: found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, LakewardenError)
}
EXITS = {code: str(int(found.exit_code)) for code, found in CLASSES.items()}
EXITS |= dict.fromkeys([*ROOT_REFUSALS, *DOUBT_REFUSALS, *BRAKE_REFUSALS], str(int(Exit.REFUSED)))
EXITS |= {Stopped.code: f"{int(Exit.INTERRUPTED)} or {int(Exit.TERMINATED)}"}
ERROR_PAGES = sorted((DOCS / "errors").glob("LW-*.md"))


def codes_in_source() -> set[str]:
    files = (ROOT / "src").rglob("*.py")
    return {code for file in files for code in _CODE.findall(file.read_text(encoding="utf-8"))}


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    # Brakes are numbered by a formula, so their codes come from the values, the others from the text.
    used = codes_in_source() | set(EXITS) | set(CODES.values())
    assert {page.stem for page in ERROR_PAGES} == used


def test_every_code_in_the_source_is_declared() -> None:
    assert codes_in_source() <= set(EXITS)


@pytest.mark.parametrize("page", ERROR_PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_it_means_what_was_not_done_and_what_to_do(page: Path) -> None:
    text = text_of(page)
    assert text.startswith(f"# {page.stem}: ")
    assert list(sections(page)) == ["What it means", "What was not done", "What to do"]
    assert all(body.strip() for body in sections(page).values())
    said = re.search(r"^Exit code: (\d+(?: or \d+)?)", text, re.MULTILINE)
    assert said is not None
    assert said[1] == EXITS[page.stem]


def test_the_index_names_every_code_with_its_exit_code() -> None:
    table = {cells[0]: cells[1] for cells in rows(text_of(DOCS / "errors" / "index.md"), "code")}
    assert table == {f"[{code}]({code}.md)": exit_code for code, exit_code in EXITS.items()}


@pytest.mark.parametrize("page", [DOCS / "errors" / "index.md", DOCS / "commands.md"], ids=name_of)
def test_exit_codes_are_all_there(page: Path) -> None:
    said = [int(cells[0]) for cells in rows(sections(page)["Exit codes"], "exit code")]
    assert said == [int(code) for code in Exit]


def test_standings_of_strangers_are_all_there() -> None:
    (page,) = (DOCS / "design").glob("*-strangers.md")
    assert [cells[0] for cells in rows(text_of(page), "standing")] == list(Standing)


def test_verdicts_brakes_and_outcomes_are_all_there() -> None:
    how_to = text_of(DOCS / "how-to" / "orphan-cleanup.md")
    assert [code_in(cells[0]) for cells in rows(text_of(DOCS / "index.md"), "verdict")] == list(Verdict)
    assert {code_in(cells[0]) for cells in rows(how_to, "outcome")} == set(Outcome)
    brakes = {code_in(cells[0]): cells[1] for cells in rows(how_to, "brake")}
    assert brakes == {brake: f"[{code}](../errors/{code}.md)" for brake, code in CODES.items()}
    assert {code: brake for brake, code in CODES.items()} == {
        code: Brake(name) for code, name in BRAKE_REFUSALS.items()
    }
