"""The Python page names every method with its real parameters; the state page names every table."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from lakewarden.ledger.heads import FOLDER
from lakewarden.ledger.schema import VERSION_TABLE, metadata
from lakewarden.pipeline.spark.log_file import LOGS
from lakewarden.reports.check_parts import PROBE
from lakewarden.warden import Warden
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, code_in, name_of, rows, text_of


def signature(text: str) -> tuple[str, list[str]]:
    """`plan(job, select=)` as its name and parameters; those given by keyword alone carry a `=`."""
    name, _, inside = text.partition("(")
    return name, [word.strip() for word in inside.rstrip(")").split(",") if word.strip()]


def test_every_method_has_its_entry() -> None:
    said = dict(signature(code_in(cells[0])) for cells in rows(text_of(DOCS / "python.md"), "method"))
    real = {name: member for name, member in inspect.getmembers(Warden) if not name.startswith("_")}
    assert set(said) == set(real)
    for name, member in real.items():
        if inspect.isfunction(member):
            parameters = list(inspect.signature(member).parameters)[1:]
            assert [word.rstrip("=") for word in said[name]] == parameters, name


PYTHON = [(name_of(page), block.text) for page in PAGES for block in blocks(page, "python")]


@pytest.mark.parametrize(
    "text", [text for _, text in PYTHON], ids=[f"{page}-{i}" for i, (page, _) in enumerate(PYTHON)]
)
def test_examples_call_what_exists(text: str) -> None:
    compile(text, "example", "exec")
    for method in re.findall(r"\bwarden\.(\w+)", text):
        assert hasattr(Warden, method), method


def test_every_state_table_has_its_entry() -> None:
    said = [code_in(cells[0]) for cells in rows(text_of(DOCS / "state.md"), "table")]
    assert set(said) == {*metadata.tables, VERSION_TABLE}


def test_every_place_in_the_state_location_has_its_entry() -> None:
    """Each folder that the code joins to the state's address."""
    said = {code_in(cells[0]).rstrip("/") for cells in rows(text_of(DOCS / "state.md"), "path")}
    used = {FOLDER, PROBE, LOGS, ".lakewarden", "lakewarden.db"}
    for file in Path(ROOT / "src").rglob("*.py"):
        used |= set(re.findall(r"\{(?:self\.)?(?:deployment\.)?state\}([a-z-]+)/", file.read_text(encoding="utf-8")))
    assert said == used
