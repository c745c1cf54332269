"""Structured logs on stderr, with run and table bound, and no secret in them.

error: something failed. warning: something was left out or has no effect. info: what a run did. debug: each step.
structlog takes a fifth of a second to import, so it is imported with the first line that is really written.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

from lakewarden.model.redaction import redact


@dataclass(slots=True)
class _Output:
    level: int = logging.WARNING
    json: bool = False
    writer: Any = None


_output = _Output()


class _Stderr:
    """Whatever stderr is when a line is written: progress on a terminal takes it over for a while."""

    def write(self, text: str) -> None:
        sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure(*, verbose: bool = False, as_json: bool = False, env: Mapping[str, str] | None = None) -> None:
    """Choose level and form: warnings and errors, or all with verbose; for people, or JSON where asked for."""
    _output.level = logging.DEBUG if verbose else logging.WARNING
    _output.json = as_json or (os.environ if env is None else env).get("LAKEWARDEN_LOG") == "json"
    _output.writer = None


def in_json() -> bool:
    """Whether each line on stderr is to be a document."""
    return _output.json


def hush_libraries(*, verbose: bool) -> None:
    """Keep what libraries log or warn of from the terminal of a command; with verbose, show it as a part of our log."""
    logging.captureWarnings(True)
    logging.getLogger().handlers[:] = [_Libraries(logging.WARNING) if verbose else logging.NullHandler()]


class _Libraries(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logger(record.name).debug(record.getMessage(), level_there=record.levelname.lower())


@dataclass(frozen=True, slots=True)
class Logger:
    """A logger with fields bound; `bind` gives another one with more."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def bind(self, **fields: Any) -> Logger:
        return Logger(self.name, {**self.fields, **fields})

    def debug(self, event: str, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        if level < _output.level:
            return
        if _output.writer is None:
            _output.writer = _structlog()
        _output.writer.bind(logger=self.name, **self.fields).log(level, event, **fields)


def logger(name: str) -> Logger:
    return Logger(name)


def bind(**fields: Any) -> Logger:
    """The worker's logger with fields bound: `bind(run_id=…, table=…)`."""
    return Logger("lakewarden", fields)


def _structlog() -> Any:
    import structlog

    last: Any = (
        structlog.processors.JSONRenderer()
        if _output.json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ)
    )
    return structlog.wrap_logger(
        structlog.PrintLogger(cast(TextIO, _Stderr())),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _without_secrets,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_output.level),
    )


def _without_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    shown: dict[str, Any] = redact(event)
    return shown
