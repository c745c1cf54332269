"""Templates to text. Whatever a template prints is escaped and made harmless: names in a lake are written by others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lakewarden.model.redaction import redact
from lakewarden.reports.page import text

TEMPLATES = Path(__file__).parent / "templates"


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
    return value if hasattr(value, "__html__") else text.shown(redact(value) if isinstance(value, str) else value)


def render(template: str, content: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(content)
