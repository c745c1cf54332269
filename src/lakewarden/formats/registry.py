"""Which formats there are: the packages beside this file, and any module that a configuration names by a dotted path."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

import lakewarden.formats
from lakewarden.model.errors import ConfigError

if TYPE_CHECKING:
    from lakewarden.model.format import OpenFormat


def format_names() -> tuple[str, ...]:
    """The formats that come with this version, by the names that a configuration gives them."""
    return tuple(sorted(found.name for found in iter_modules(lakewarden.formats.__path__) if found.ispkg))


def is_format_name(name: str) -> bool:
    """Whether a configuration may say so: a format of ours, or the dotted path of a module such as `acme.formats.lance`."""
    parts = name.split(".")
    return name in format_names() or (len(parts) > 1 and all(part.isidentifier() for part in parts))


def format_module(name: str) -> ModuleType:
    """The package of a format. Raises ConfigError for one that cannot be imported."""
    path = name if "." in name else f"{lakewarden.formats.__name__}.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        known = ", ".join(f'"{found}"' for found in format_names())
        raise ConfigError(
            f'format = "{name}" is not supported by this version ({error}); supported: {known}'
        ) from error


def opener_of(name: str) -> OpenFormat:
    """What opens catalogs of a format. Raises ConfigError for a module that is no format."""
    found: OpenFormat | None = getattr(format_module(name), "open_format", None)
    if found is None:
        raise ConfigError(f'format = "{name}" names a module without open_format, so it is no table format')
    return found
