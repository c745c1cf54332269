"""Every setting has its entry with the right default and range, and every example loads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lakewarden.jobs.registry import SECTIONS
from lakewarden.settings import load_settings
from lakewarden.settings.load import read_environment
from lakewarden.settings.schema import Override, Settings
from lakewarden.settings.sections import CatalogSection, Cost, Metrics, Service, Spark, State, Webhook, Worker
from lakewarden.steps.section import JobSection
from tests.docs.pages import DOCS, PAGES, blocks, code_in, name_of, rows, sections, text_of

PAGE = DOCS / "settings.md"
OTHER_JOBS = "The other jobs"
TYPED = {
    "worker": Worker.model_fields,
    "state": State.model_fields,
    "spark": Spark.model_fields,
    "catalogs": CatalogSection.model_fields,
    "cost": Cost.model_fields,
    "metrics": Metrics.model_fields,
    "webhooks": Webhook.model_fields,
    "service": Service.model_fields,
    **{name: model.model_fields for name, model in SECTIONS.items() if model is not JobSection},
    OTHER_JOBS: JobSection.model_fields,
    "overrides": {"match": Override.model_fields["match"]},
}
TOML = [(name_of(page), block.text) for page in PAGES for block in blocks(page, "toml")]


def entries(section: str) -> dict[str, list[str]]:
    return {code_in(cells[0]): cells[1:] for cells in rows(sections(PAGE)[section], "key")}


def test_every_section_has_its_heading() -> None:
    headings = set(sections(PAGE))
    others = {name for name, model in SECTIONS.items() if model is JobSection}
    assert set(Settings.model_fields) - others <= headings
    assert set(re.findall(r"`\[(\w+)\]`", sections(PAGE)[OTHER_JOBS])) == others


@pytest.mark.parametrize("section", TYPED)
def test_every_key_has_its_entry_and_every_entry_a_key(section: str) -> None:
    assert list(entries(section)) == list(TYPED[section])


CASES = [(section, key, field) for section, fields in TYPED.items() for key, field in fields.items()]


@pytest.mark.parametrize(("section", "key", "field"), CASES, ids=[f"{section}.{key}" for section, key, _ in CASES])
def test_default_and_range_are_the_real_ones(section: str, key: str, field: FieldInfo) -> None:
    default, allowed, meaning = entries(section)[key]
    assert meaning
    expected = default_of(field)
    assert expected is None or default == expected
    expected = range_of(field)
    assert expected is None or allowed.replace("`", "") == expected


def default_of(field: FieldInfo) -> str | None:
    """The default as the page must say it; None where it is said in words."""
    if field.default_factory is dict:
        return "empty"
    if field.default_factory is not None:
        return None
    if field.default is PydanticUndefined:
        return "required"
    return "none" if field.default is None else f"`{json.dumps(field.default)}`"


def range_of(field: FieldInfo) -> str | None:
    """What is allowed as the page must say it; None where it is said in words."""
    if field.annotation is bool:
        return "true or false"
    choices = get_args(field.annotation)
    if choices and all(isinstance(choice, str) for choice in choices):
        return " or ".join(f'"{choice}"' for choice in choices)
    low = next((limit.ge for limit in field.metadata if hasattr(limit, "ge")), None)
    high = next((limit.le for limit in field.metadata if hasattr(limit, "le")), None)
    if low is None:
        return None
    return f"{low} or more" if high is None else f"{low} to {high}"


@pytest.mark.parametrize("text", [text for _, text in TOML], ids=[f"{page}-{i}" for i, (page, _) in enumerate(TOML)])
def test_every_example_loads(text: str, tmp_path: Path) -> None:
    file = tmp_path / "lakewarden.toml"
    file.write_text(text, encoding="utf-8")
    assert load_settings(str(file), env={}) is not None


def test_every_variable_is_understood() -> None:
    """The examples' variables are settings; the others are named as what they are."""
    given: dict[str, str] = {}
    for block in blocks(PAGE, "sh"):
        given |= dict(re.findall(r"^export (\w+)=[\"']?(.*?)[\"']?$", block.text, re.MULTILINE))
    overlay, variables = read_environment(given)
    assert set(variables.values()) == set(given)
    assert overlay["orphan_cleanup"]["grace_period_hours"] == 336
    assert overlay["catalogs"]["prod"]["properties"]["type"] == "rest"
    named: set[Any] = set(re.findall(r"\bLAKEWARDEN_[A-Z_]*[A-Z]\b", "".join(text_of(page) for page in PAGES)))
    assert named == {*given, "LAKEWARDEN_LOG"}
