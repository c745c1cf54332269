"""The doctor's report as a person reads it: worst first, by code, counts before names, nothing that is zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from lakewarden.cli.screen import Screen, number, size

SHOWN_GROUPS = 4
SHOWN_LINES = 2

Facts = Mapping[str, Any]


def show_doctor(screen: Screen, report: Facts, width: int) -> None:
    """Two screens for a fleet of a hundred and thirty tables; `--output json` names every table."""
    _Doctor(screen, report, max(width, 40)).show()


def plural(count: int, noun: str, several: str | None = None) -> str:
    return f"{number(count)} {noun if count == 1 else several or noun + 's'}"


class _Doctor:
    def __init__(self, screen: Screen, report: Facts, width: int) -> None:
        self._screen, self._report, self._width = screen, report, width

    def show(self) -> None:
        self._summary()
        self._stops()
        self._groups("REFUSED", "red", self._report["refused_by_code"])
        self._doubts()
        self._undone()
        self._groups("ATTENTION", "yellow", self._report["attention"])
        self._places()
        self._bytes()

    def _summary(self) -> None:
        health = self._report["health"]
        told = [
            f"{number(health[name])} {words}"
            for name, words in (("refused", "refused"), ("attention", "to look at"), ("healthy", "healthy"))
            if health[name]
        ]
        roots = self._report["roots"]
        counted = f"{plural(self._report['tables'], 'table')} in {plural(roots, 'directory', 'directories')}"
        self._screen.line(f"{counted}: {', '.join(told)}" if told else f"{counted}.", style="bold")

    def _stops(self) -> None:
        if frozen := self._report["frozen"]:
            self._head(
                "FROZEN", "red", f"by {frozen['by']} since {_instant(frozen['since'])}: no worker starts a batch"
            )
            if frozen["reason"]:
                self._text(f"reason: {frozen['reason']}")
            self._text("next: lakewarden unfreeze, when the reason is gone")
        if forgotten := self._report["forgotten_runs"]:
            self._head("STATE", "red", f"the database does not know {plural(len(forgotten), 'run')} (LW-STATE-002)")
            self._names([str(run) for run in forgotten])

    def _groups(self, title: str, style: str, groups: Sequence[Facts]) -> None:
        """Each reason once, with how many tables it concerns, an example's words, the first names and the next step."""
        if not groups:
            return
        tables = len({name for group in groups for name in group["tables"]})
        self._head(title, style, plural(tables, "table"))
        for group in groups[:SHOWN_GROUPS]:
            message = group["message"] if group["alike"] else f"such as: {group['message']}"
            self._one_line(f"{number(group['count']):>5}  {group['code']}  ", message)
            self._names(group["tables"], 7)
            self._text(f"next: {group['hint']}", 7)
        if len(groups) > SHOWN_GROUPS:
            rest = groups[SHOWN_GROUPS:]
            codes = ", ".join(f"{group['code']} ({number(group['count'])})" for group in rest)
            self._text(f"and {codes}", 7)

    def _doubts(self) -> None:
        if doubts := self._report["doubts"]:
            self._head("IN DOUBT", "red", f"{plural(len(doubts), 'table')} of which less can be seen than before")
            for doubt in doubts[:SHOWN_LINES]:
                self._text(f"{doubt['table']}: {doubt['message']}")
                self._text(f"next: {doubt['hint']}", 4)
            self._more(len(doubts), "doubts")

    def _undone(self) -> None:
        """What was begun and not ended: open batches, silent holders of leases."""
        if intents := self._report["open_intents"]:
            files = sum(intent["files"] for intent in intents)
            runs = sorted({str(intent["run_id"]) for intent in intents})
            self._head("UNFINISHED", "yellow", f"{plural(len(intents), 'batch', 'batches')} of {plural(files, 'file')}")
            self._names(runs)
            self._text("next: the same apply again; it settles what was announced and goes on")
        if leases := self._report["stale_leases"]:
            self._head("STALE LEASES", "yellow", f"{number(len(leases))}, whose holders have been silent for too long")
            for lease in leases[:SHOWN_LINES]:
                self._screen.line(f"  {lease['key']}")
                self._text(f"held by {lease['holder']}, last heard of {_instant(lease['renewed_at'])}", 4)
            self._more(len(leases), "leases")

    def _places(self) -> None:
        shared, nested = self._report["shared_roots"], self._report["nested_roots"]
        if shared or nested:
            told = [f"{plural(len(shared), 'directory', 'directories')} shared by tables"] if shared else []
            told += [f"{plural(len(nested), 'table')} inside another's directory"] if nested else []
            self._head("PLACES", "", ", ".join(told))
            for entry in shared[:SHOWN_LINES]:
                self._screen.line(f"  {entry['prefix']}")
                self._names(entry["tables"], 4)
            for entry in nested[:SHOWN_LINES]:
                self._text(f"{entry['table']} in {entry['inside']}")

    def _bytes(self) -> None:
        lines: list[tuple[str, str]] = []
        found = self._report["reclaimable"]
        if found["files"]:
            lines.append(("reclaimable", f"{plural(found['files'], 'orphan')}, {size(found['bytes'])}"))
        waiting = self._report["pending"]
        if waiting["files"]:
            told = f"{plural(waiting['files'], 'released file')}, {size(waiting['bytes'])}"
            lines.append(("pending", f"{told}, since {_instant(waiting['oldest'])}"))
        if never := len(self._report["never_maintained"]):
            lines.append(("never cleaned", plural(never, "table")))
        if plan := self._report["newest_plan"]:
            used = f"used by run {plan['used_by']}" if plan["used_by"] else "not applied"
            # Plans of other jobs may be newer: what this report knows of orphans is as old as this one.
            lines.append(("newest orphan plan", f"{_instant(plan['created_at'])}, {used}"))
            lines.append(("", str(plan["path"])))
        if lines:
            self._screen.line()
        for name, words in lines:
            self._screen.line(f"{name:<20}{words}")

    def _head(self, title: str, style: str, words: str) -> None:
        self._screen.line()
        self._screen.line(f"{title}  {words}", style=f"bold {style}".strip())

    def _text(self, text: str, indent: int = 2) -> None:
        """Words in the width of the screen. A word that is longer, such as a path, is not cut."""
        for line in wrap(text, self._width - indent, break_long_words=False, break_on_hyphens=False) or [""]:
            self._screen.line(" " * indent + line)

    def _one_line(self, head: str, sentence: str) -> None:
        """As many words of a sentence as fit; all of it is in `--output json`. No word is cut: where the first one, such
        as a path, is too long for the line, the whole sentence stands below. What was not done goes without saying."""
        room = self._width - len(head)
        sentence = sentence.partition("; nothing ")[0]
        if len(sentence) > room:
            first = wrap(sentence, max(room - 4, 1), break_long_words=False, break_on_hyphens=False)[0]
            if len(first) > room - 4:
                self._screen.line(head)
                return self._text(sentence, 7)
            sentence = f"{first} ..."
        self._screen.line(f"{head}{sentence}")

    def _names(self, names: Sequence[str], indent: int = 2) -> None:
        """As many names as fit on one line, one at least, and how many more there are."""
        self._screen.line(" " * indent + _some(names, self._width - indent))

    def _more(self, count: int, noun: str) -> None:
        if count > SHOWN_LINES:
            self._text(f"and {number(count - SHOWN_LINES)} more {noun}; --output json has them all")


def _some(names: Sequence[str], room: int) -> str:
    for count in range(min(len(names), 20), 0, -1):
        left = len(names) - count
        text = ", ".join(names[:count]) + (f" and {number(left)} more" if left else "")
        if count == 1 or len(text) <= room:
            return text
    return ""


def _instant(text: str | None) -> str:
    """An instant of the report as people read it: UTC, to the minute."""
    return f"{text[:10]} {text[11:16]} UTC" if text else "at an unknown time"
