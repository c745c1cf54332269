"""Templates to text. Whatever a template prints is escaped and made harmless: names in a lake are written by others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lakewarden.model.redaction import redact
from lakewarden.reports.page import text

TEMPLATES = Path(__file__).parent / "templates"
# A page says the same names and words many times, and the next page says them again: a third of the time that it takes.
_KEPT_TEXTS = 8192
# Names and words, and not what somebody searched for: thousands of long texts would fill a process that lives for months.
_KEPT_LENGTH = 400


@cache
def environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "sentence": text.sentence,
        "size": text.size,
        "number": text.number,
        "percent": text.percent,
        "instant": text.instant,
    }
    return found


def _harmless(value: Any) -> Any:
    """What a template prints: no secret, and nothing that steers a page."""
    if hasattr(value, "__html__"):
        return value
    if not isinstance(value, str):
        return text.shown(value)
    return _kept_text(value) if len(value) <= _KEPT_LENGTH else _harmless_text(value)


def _harmless_text(value: str) -> str:
    return str(text.shown(redact(value)))


_kept_text = lru_cache(_KEPT_TEXTS)(_harmless_text)


def render(template: str, content: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(content)
