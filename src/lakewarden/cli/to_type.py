"""A command that is printed for somebody to type: with the configuration that this command was given."""

from __future__ import annotations

import shlex


def to_type(words: str, config: str | None) -> str:
    """`apply plan --yes` as `lakewarden apply plan --yes --config my.toml`."""
    return f"lakewarden {words}" + (f" --config {shlex.quote(config)}" if config else "")
