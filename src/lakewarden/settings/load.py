"""Reading the configuration: the TOML file, then the environment over it, then every mistake in words."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, TomlConfigSettingsSource

from lakewarden import logs
from lakewarden.model.errors import ConfigError
from lakewarden.settings.complaints import complaint, guess
from lakewarden.settings.schema import Settings
from lakewarden.settings.text_values import typed

DEFAULT_FILE = "lakewarden.toml"
VARIABLE_PREFIX = "LAKEWARDEN_"
VARIABLE_HINT = "Correct or unset the variable; nothing was done."

EXAMPLE = """\
[state]
location = "file:///var/lib/lakewarden"

[catalogs.prod]
format = "iceberg"
properties = { type = "rest", uri = "https://catalog.example.com" }"""

_log = logs.logger(__name__)


def load_settings(path: str | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """The configuration in `path` (default: lakewarden.toml here) under the environment's. Raises ConfigError only."""
    file = _existing(path)
    overlay, variables = read_environment(os.environ if env is None else env)

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: Any, **__: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (InitSettingsSource(settings_cls, overlay), TomlConfigSettingsSource(settings_cls, file))

    try:
        settings = Loaded()
    except ValidationError as error:
        raise _in_words(error, file, variables) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}", hint="Correct the line; nothing was done.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read: {type(error).__name__}", hint="Check the file's rights and encoding."
        ) from None
    settings._file = str(file)
    settings._variables = variables
    for warning in settings.warnings():
        _log.warning("setting without effect", setting=warning, file=str(file))
    return settings


def _existing(path: str | None) -> Path:
    file = Path(DEFAULT_FILE if path is None else path)
    if file.is_file():
        return file
    if file.is_dir():
        raise ConfigError(
            f"{file} is a directory; nothing was done", hint=f"Name the file: --config {file / DEFAULT_FILE}"
        )
    hint = f"Write {file}, or name another with --config FILE. The least it needs:\n\n{EXAMPLE}"
    raise ConfigError(f"there is no configuration file {file}; nothing was done", hint=hint)


def read_environment(env: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings in LAKEWARDEN_SECTION__KEY variables, and which variable holds which dotted key."""
    overlay: dict[str, Any] = {}
    variables: dict[str, str] = {}
    for variable in sorted(env):
        if not variable.startswith(VARIABLE_PREFIX):
            continue
        path = variable.removeprefix(VARIABLE_PREFIX).lower().split("__")
        if path[0] not in Settings.model_fields:
            _refuse_near_miss(variable, path)
            continue
        variables[".".join(path)] = variable
        _put(overlay, path, typed(env[variable], _owner(path), path[-1]), variable)
    return overlay, variables


def _refuse_near_miss(variable: str, path: list[str]) -> None:
    """Raise for a variable that was meant to be a setting; others (LAKEWARDEN_LOG) are not ours to judge."""
    if len(path) > 1:
        raise ConfigError(
            f"{variable}: there is no section {path[0]!r}{guess(path[0], Settings.model_fields)}", hint=VARIABLE_HINT
        )
    for section in Settings.model_fields:
        if path[0].startswith(f"{section}_"):
            meant = f"{VARIABLE_PREFIX}{section}__{path[0].removeprefix(section + '_')}".upper()
            raise ConfigError(
                f"{variable} is not a setting; did you mean {meant} (two underscores)?", hint=VARIABLE_HINT
            )


def _owner(path: list[str]) -> type[BaseModel] | None:
    """The typed section that holds the last key of the path, if it is one."""
    section = Settings.model_fields[path[0]].annotation
    return section if len(path) == 2 and isinstance(section, type) and issubclass(section, BaseModel) else None


def _put(overlay: dict[str, Any], path: list[str], value: Any, variable: str) -> None:
    for part in path[:-1]:
        overlay = overlay.setdefault(part, {})
        if not isinstance(overlay, dict):
            raise ConfigError(f"{variable} contradicts another variable that sets all of {path[0]}; keep one")
    if isinstance(overlay.get(path[-1]), dict) and isinstance(value, dict):
        overlay[path[-1]].update(value)
    else:
        overlay[path[-1]] = value


def _in_words(error: ValidationError, file: Path, variables: Mapping[str, str]) -> ConfigError:
    """Every mistake, a line each, with the file or variable that holds it."""
    lines: dict[str, None] = {}
    for detail in error.errors(include_url=False):
        key = ".".join(str(part) for part in detail["loc"])
        lines[f"{variables.get(key, file)}: {complaint(detail, Settings)}"] = None
    message = "\n".join(lines)
    return ConfigError(message, hint="Correct the configuration; nothing was done.")
