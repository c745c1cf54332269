"""What happened, step by step: the events of a request and what a run noted, as people read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.ledger.request_events import Event
from lakewarden.model.redaction import redact
from lakewarden.reports.page.text import number, plural
from lakewarden.service.html.words import lasted
from lakewarden.steps.apply.claim import STARTED

PROGRESS = "progress"
MOST_STEPS = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, when it began, what it says, and how far it came where it counts something."""

    name: str
    at: datetime
    words: str = ""
    done: int = 0
    total: int = 0
    took: str = ""


def steps_of(events: Iterable[Event], noted: Iterable[Mapping[str, Any]] = ()) -> list[Step]:
    """In the order of time. A stage that told several times how far it is, is one step."""
    told = [_of_event(one) for one in events]
    told += [Step(str(one["name"]), _instant(one["at"]), _noted_words(one)) for one in noted]
    found: list[Step] = []
    for step in sorted(told, key=lambda one: one.at):
        same = found and step.total and found[-1].name == step.name
        if same:
            step = Step(step.name, found[-1].at, step.words, step.done, step.total)
            found.pop()
        found.append(step)
    after = [*found[1:], None] if found else []
    return [_timed(step, later) for step, later in zip(found, after, strict=True)]


def _timed(step: Step, after: Step | None) -> Step:
    """A step lasted until the next one began."""
    took = lasted(step.at, after.at) if after is not None else ""
    return Step(step.name, step.at, step.words, step.done, step.total, took)


def _of_event(event: Event) -> Step:
    detail = event.detail or {}
    if event.name == PROGRESS:
        done, total = int(detail.get("done") or 0), int(detail.get("total") or 0)
        return Step(
            str(detail.get("stage")), event.at, f"{number(done)} of {number(total)}" if total else "", done, total
        )
    if event.name in _WORDS:
        return Step(event.name, event.at, _WORDS[event.name](detail))
    return Step(event.name, event.at, _of_error(detail) if "error" in detail else detail_words(detail))


def _of_error(detail: Mapping[str, Any]) -> str:
    """The code alone: the page has its words and its next step at the top."""
    return str((detail.get("error") or {}).get("code", ""))


def _taken_up(detail: Mapping[str, Any]) -> str:
    died = int(detail.get("takeovers") or 0)
    return f"by {detail.get('by')}" + (f", after {plural(died, 'runner')} died over it" if died else "")


def _planned(detail: Mapping[str, Any]) -> str:
    changes = {name: count for name, count in (detail.get("changes") or {}).items() if count}
    return ", ".join(f"{number(count)} {name}" for name, count in changes.items()) or "nothing to do"


def _approved(detail: Mapping[str, Any]) -> str:
    return f"by {detail.get('by')}"


def _started(detail: Mapping[str, Any]) -> str:
    """Who began a run and on what terms. Its lineage is said by the page already."""
    left, lifted = detail.get("left_out") or (), detail.get("overrides") or ()
    said = [f"by {detail.get('by')}" + (", as the policies say" if detail.get("unattended") else "")]
    said += [f"{plural(len(left), 'table')} left as {'it is' if len(left) == 1 else 'they are'}"] if left else []
    return "; ".join([*said, *([f"brakes lifted: {', '.join(lifted)}"] if lifted else [])])


def _noted_words(noted: Mapping[str, Any]) -> str:
    detail = noted["detail"]
    return _started(detail) if noted["name"] == STARTED and isinstance(detail, Mapping) else detail_words(detail)


_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "taken up": _taken_up,
    "planned": _planned,
    "approved": _approved,
}


def detail_words(detail: Any) -> str:
    """What a step noted, in words as far as it has them."""
    found = redact(detail)
    if found is None or isinstance(found, str):
        return found or ""
    if isinstance(found, Mapping):
        said = {name.replace("_", " "): value for name, value in found.items() if value not in (None, [], {}, "")}
        return ", ".join(f"{name}: {_short(value)}" for name, value in said.items())
    return _short(found)


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and len(value) > 5:
        return f"{len(value):,} of them"
    if isinstance(value, int):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(_counted(name.replace("_", " "), one) for name, one in value.items())
    return json.dumps(value, ensure_ascii=False, default=str)


def _counted(name: str, value: Any) -> str:
    """`1,200 files`, but `place s3://cold`."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{_short(value)} {name}" if is_count else f"{name} {_short(value)}"


def _instant(at: datetime | str) -> datetime:
    return datetime.fromisoformat(at) if isinstance(at, str) else at
