"""Configuration files as tests write them: values in, TOML out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Sections = dict[str, dict[str, Any]]


def write_toml(path: Path, document: Mapping[str, Any]) -> Path:
    """Write a configuration file; its directory is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(_blocks(document)) + "\n", encoding="utf-8")
    return path


def copied(sections: Mapping[str, Mapping[str, Any]]) -> Sections:
    """Sections that a test may change."""
    return {name: dict(values) for name, values in sections.items()}


def _blocks(document: Mapping[str, Any]) -> Iterator[str]:
    """A block a section: `[state]`; a block a name where all values are tables: `[catalogs.lake]`; `[[overrides]]` for a list."""
    for section, values in document.items():
        if isinstance(values, list):
            for block in values:
                yield from (f"[[{_key(section)}]]", *_lines(block))
        elif values and all(isinstance(value, Mapping) for value in values.values()):
            for name, block in values.items():
                yield from (f"[{_key(section)}.{_key(name)}]", *_lines(block))
        else:
            yield from (f"[{_key(section)}]", *_lines(values))


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_key(key)} = {_value(value)}" for key, value in values.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_lines(value)) + " }"
    return json.dumps(value, ensure_ascii=False)
