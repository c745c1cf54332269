"""A validation error as a person needs it: which key, what is wrong, what is allowed. Never a secret value."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from lakewarden.model.redaction import redact

_TYPES = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text in quotes",
    "dict_type": "a table of keys and values",
    "model_type": "a table of keys and values",
    "model_attributes_type": "a table of keys and values",
    "list_type": "a list",
    "finite_number": "a number",
}
_NAMES = {bool: "true/false", int: "a whole number", float: "a number", str: "text", dict: "a table", list: "a list"}
# Values of these sections are handed on to other systems and may hold anything; they are never quoted.
_OPAQUE = {"catalogs", "storage", "state", "spark"}


def guess(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where something known is close, else the list of what is known."""
    names = sorted(known)
    close = get_close_matches(name, names, 1, 0.6)
    return f"; did you mean {close[0]}?" if close else f"; allowed: {', '.join(names)}"


def complaint(error: ErrorDetails, model: type[BaseModel], prefix: tuple[str, ...] = ()) -> str:
    """One sentence about one validation error under `model`."""
    path = [str(part) for part in (*prefix, *_named(error["loc"], model))]
    name, context = ".".join(path), error.get("ctx", {})
    kind = error["type"]
    if kind == "extra_forbidden":
        owner = _model_at(model, error["loc"][:-1])
        return f"{name} is not a setting{guess(path[-1], owner.model_fields)}"
    if kind == "missing":
        return f"{name} is missing{_allowed(model, error['loc'])}"
    got = _shown(path, error["input"])
    if kind == "literal_error":
        return f"{name}{got and f' = {got}'} is not allowed; allowed: {context['expected'].replace(chr(39), chr(34))}"
    if kind in _TYPES:
        return f"{name} must be {_TYPES[kind]}, not {got or _type_name(error['input'])}"
    if {"ge", "gt", "le"} & context.keys():
        return f"{name} = {got} is out of range; allowed: {_range(model, error['loc'])}"
    if kind == "string_too_short":
        return f"{name} must not be empty"
    if kind == "value_error":
        # Our own validators' words; a check of the whole file names its keys itself.
        return f"{name} {context['error']}" if path else str(context["error"])
    return str(redact(f"{name}: {error['msg']}" if name else error["msg"]))


def _named(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """The keys as a user wrote them, without the branch names that pydantic adds for unions."""
    parts: list[str] = []
    for part in location:
        if isinstance(part, str) and part in {"str", "bool", "int", "float"} and len(parts) > 2:
            continue
        parts.append(f"{parts.pop()}[{part}]" if isinstance(part, int) and parts else str(part))
    return parts


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    current: Any = model
    for part in location:
        if isinstance(current, type) and issubclass(current, BaseModel):
            field = current.model_fields.get(str(part))
            current = field.annotation if field else None
        else:
            arguments = get_args(current)
            current = arguments[-1] if arguments else None
    return current if isinstance(current, type) and issubclass(current, BaseModel) else model


def _allowed(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    field = _model_at(model, location[:-1]).model_fields.get(str(location[-1]))
    choices = (field.examples or get_args(field.annotation)) if field else ()
    return f"; allowed: {', '.join(repr(c).replace(chr(39), chr(34)) for c in choices)}" if choices else ""


def _range(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    field = _model_at(model, location[:-1]).model_fields[str(location[-1])]
    low = next((m.ge for m in field.metadata if hasattr(m, "ge")), None)
    if low is None:
        low = next((f"above {m.gt}" for m in field.metadata if hasattr(m, "gt")), None)
    high = next((m.le for m in field.metadata if hasattr(m, "le")), None)
    return f"{low} to {high}" if high is not None else f"{low} or more"


def _type_name(value: Any) -> str:
    return _NAMES.get(type(value), type(value).__name__)


def _shown(path: list[str], value: Any) -> str:
    if not path or path[0] in _OPAQUE or isinstance(value, dict | list):
        return ""
    shown = redact(value, path[-1])
    return str(shown).lower() if isinstance(shown, bool) else f'"{shown}"' if isinstance(shown, str) else str(shown)
