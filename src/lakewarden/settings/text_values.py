"""Values that arrive as text, from the environment and from table properties, read as their key's type."""

from __future__ import annotations

import json
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel

_TRUTH = {"true": True, "false": False}


def typed(text: str, model: type[BaseModel] | None, key: str) -> Any:
    """The text as a value of the key's type; what does not fit stays text, for validation to name."""
    annotation = _said(model.model_fields[key].annotation) if model and key in model.model_fields else None
    text = text.strip()
    if annotation is bool:
        return _TRUTH.get(text.lower(), text)
    if annotation in (int, float):
        try:
            return int(text) if annotation is int else float(text)
        except ValueError:
            return text
    if text[:1] in ("{", "[") and annotation is not str:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _said(annotation: Any) -> Any:
    """The type of a value that is there: `int` for `int | None`."""
    parts = [part for part in get_args(annotation) if part is not NoneType]
    return parts[0] if len(parts) == 1 and NoneType in get_args(annotation) else annotation
