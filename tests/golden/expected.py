"""The files of whole outputs: compared with what commands print, or written anew by `pytest tests/golden --update-golden`.

A wider terminal or a pipe that shows the same as the terminal of 80 columns has no file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.golden.command import STDERR, Form

FOLDER = Path(__file__).parent / "expected"
HOW = "write it with: pytest tests/golden --update-golden, and read what it wrote"


def check(name: str, found: Mapping[Form, str], update: bool) -> None:
    """Compare a scene's outputs with its files, or write them."""
    wanted = {form: text for form, text in found.items() if form in (Form.JSON, Form.NARROW) or _differs(found, form)}
    for form, text in wanted.items():
        path = file_of(name, form)
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing; {HOW}"
        assert text == path.read_text(encoding="utf-8"), f"{path} says otherwise; if the new words are right, {HOW}"
    for form in found.keys() - wanted.keys():
        path = file_of(name, form)
        if update:
            path.unlink(missing_ok=True)
        assert not path.exists(), f"{path} says what {file_of(name, Form.NARROW).name} says; {HOW}"


def file_of(name: str, form: Form) -> Path:
    return FOLDER / f"{name}.{form}"


def unowned(names: set[str]) -> list[str]:
    """Files that no scene owns."""
    owned = {str(file_of(name, form)) for name in names for form in Form}
    return sorted(str(path) for path in FOLDER.rglob("*") if path.is_file() and str(path) not in owned)


def _differs(found: Mapping[Form, str], form: Form) -> bool:
    """Whether this form shows other words than the narrow terminal; a pipe may only split them into two streams."""
    return found[form].replace(f"{STDERR}\n", "") != found.get(Form.NARROW)
