"""One local directory under two names: what is needed under one of them looks unneeded under the other.

What tables and their metadata name is looked at before anything is compared. What manifests name is known only when they
have been read: a directory is resolved once, however many files lie in it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from lakewarden.model.errors import Refusal, UnlistableError
from lakewarden.model.roots import named_outside
from lakewarden.model.table import TableState
from lakewarden.steps.observe.mounts import LOCAL, Mounts, real

STRAY = UnlistableError.code
HINT = "Name every table, and every directory it writes to, by the same path."


def aliased(prefixes: Iterable[str], states: Iterable[TableState]) -> dict[str, Refusal]:
    """Those of these directories that another of them, or a table, reaches through a link under another name."""
    states = list(states)
    local = {prefix for prefix in prefixes if prefix.startswith(LOCAL)}
    if not local:
        return {}
    # Behind a stray link nothing is read, so nobody names a file through it: it may lead to a table, or to the directory
    # of all of them. Only where it leads into a table's directory may something lie there that nobody knows.
    stray = {root for state in states if state.refusal and state.refusal.code == STRAY for root in state.roots}
    found: dict[str, Refusal] = {}
    above: list[tuple[str, str]] = []
    mounts = Mounts()
    # In order, whatever lies within a directory follows it.
    for there, place in sorted((real(place, mounts), place) for place in local.union(*map(_elsewhere, states))):
        while above and not there.startswith(above[-1][0]):
            above.pop()
        for around, other in above:
            if other in stray or (place in stray and there == around):
                continue
            if not place.startswith(other) and not other.startswith(place):
                linked, target = (place, other) if place != there else (other, place)
                found |= {name: _refusal(linked, target) for name in (place, other) if name in local}
        above.append((there, place))
    return found


def reached_by_links(prefixes: Iterable[str], named: Iterable[str]) -> dict[str, Refusal]:
    """Those of these roots into which one of the named directories or links leads, under a name that is not the root's.

    A root that everybody reaches through the same link is not among them: its files have one name there.
    """
    disk = _Disk()
    roots: dict[str, list[str]] = {}
    for prefix in prefixes:
        if prefix.startswith(LOCAL):
            roots.setdefault(disk.real(prefix), []).append(prefix)
    found: dict[str, Refusal] = {}
    for place in named if roots else ():
        there = disk.real(place)
        end = len(there)
        while end > 0:
            for prefix in roots.get(there[:end], ()):
                # Below the root's own name, and led nowhere by the steps after it.
                if prefix not in found and place != prefix + there[end:]:
                    found[prefix] = _refusal(place, prefix)
            end = there.rfind("/", 0, end - 1) + 1
    return found


class _Disk:
    """Where local directories really are. Each is looked at once, by one call beside that for the directory above it."""

    def __init__(self) -> None:
        self._known = {"": ""}
        self._mounts = Mounts()

    def real(self, place: str) -> str:
        """The address of a directory, ending in a slash, with all links and second mounts in it resolved."""
        path = place.removeprefix(LOCAL).rstrip("/")
        above, unknown = path, []
        while above not in self._known:
            unknown.append(above)
            above = above.rpartition("/")[0]
        real = self._known[above]
        for step in reversed(unknown):
            there = _resolved(f"{real}/{step.rpartition('/')[2]}")
            real = self._known[step] = self._mounts.one_name(there or "/").rstrip("/")
        return f"{LOCAL}{real}/"


def _resolved(path: str) -> str:
    """A path whose directory has no link in it. What is not there, or cannot be looked at, leads nowhere else."""
    try:
        return os.path.realpath(path).rstrip("/") if stat.S_ISLNK(os.lstat(path).st_mode) else path
    except (OSError, ValueError):
        return path


def _elsewhere(state: TableState) -> Iterator[str]:
    """Local directories of files that the metadata names outside the directories of its table."""
    for key in named_outside(state):
        if key.startswith(LOCAL):
            yield key.rpartition("/")[0] + "/"


def _refusal(place: str, prefix: str) -> Refusal:
    message = f"{place} leads to {prefix} by a symbolic link or a second mount, so its files have two names; nothing under it is touched"
    return Refusal("LW-ROOT-005", message, HINT)
