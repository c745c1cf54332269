"""Values that arrive as text, from the environment and from table properties, read as their key's type."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

_TRUTH = {"true": True, "false": False}


def typed(text: str, model: type[BaseModel] | None, key: str) -> Any:
    """The text as a value of the key's type; what does not fit stays text, for validation to name."""
    annotation = model.model_fields[key].annotation if model and key in model.model_fields else None
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
