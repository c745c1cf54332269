"""One local directory under two names: what is needed under one of them looks unneeded under the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from lakewarden.model.errors import Refusal
from lakewarden.model.table import TableState
from lakewarden.model.uri import FileUri, canonical

LOCAL = "file://"
HINT = "Name every table, and every directory it writes to, by the same path."


def aliased(prefixes: Iterable[str], states: Iterable[TableState]) -> dict[str, Refusal]:
    """Those of these directories that another of them, or a table, reaches through a link under another name."""
    real = {prefix: _real(prefix) for prefix in prefixes if prefix.startswith(LOCAL)}
    if not real:
        return {}
    places = {*real, *(place for state in states for place in _elsewhere(state))}
    found: dict[str, Refusal] = {}
    for place, there in sorted((place, _real(place)) for place in places):
        if place == there:
            continue
        for prefix, here in real.items():
            if not place.startswith(prefix) and (there.startswith(here) or here.startswith(there)):
                found |= {name: _refusal(place, prefix) for name in (prefix, place) if name in real}
    return found


def _elsewhere(state: TableState) -> Iterator[str]:
    """Local directories of files that the metadata names outside the directories of its table."""
    own = tuple(FileUri.parse(root).as_prefix() for root in state.roots)
    for file in state.files:
        if not file.uri.startswith(own) and (key := canonical(file.uri)).startswith(LOCAL) and not key.startswith(own):
            yield key.rpartition("/")[0] + "/"


def _real(prefix: str) -> str:
    return f"{LOCAL}{os.path.realpath(prefix.removeprefix(LOCAL)).rstrip('/')}/"


def _refusal(place: str, prefix: str) -> Refusal:
    message = f"{place} leads to {prefix} by a symbolic link, so its files have two names; nothing under it is touched"
    return Refusal("LW-ROOT-005", message, HINT)
