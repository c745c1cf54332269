"""What is known of one file, as a person reads it: what it is first, then why, each source under a heading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lakewarden.cli.run_detail_text import by_whom, second
from lakewarden.cli.screen import Screen, number, one_line, size

Facts = Mapping[str, Any]

_MEANING = {
    "live": "A table needs it. While that is so, no job deletes it.",
    "pending": "Snapshot expiry has released it, and physical deletion will take it, unless something needs it then.",
    "orphan": "Nothing needed it when the newest plan looked.",
    "deleted": "It is not there any more, and the journal knows why.",
    "gone": "It is not there any more, and the journal knows of no deletion.",
    "unseen": "It is there, no table that could be read needs it, and no plan that is kept has looked at it.",
}
_KEPT = "The newest plan that looked at it keeps it."
_TRASHED = "It was moved to the trash, and the journal knows why."


def show_explanation(screen: Screen, answer: Facts) -> None:
    """Everything that the answer says of a file."""
    screen.line(f"{answer['status'].upper().replace('_', ' ')}   {answer['uri']}", style="bold")
    screen.line(f"  {_meaning(answer)}")
    for heading, lines in _sections(answer):
        screen.line()
        screen.line(heading, style="bold")
        for line in lines:
            screen.line(f"  {line}")


def _meaning(answer: Facts) -> str:
    if answer["status"] == "live" and not answer["exists"]:
        return "A table needs it, and it is NOT THERE."
    outcomes = {entry["outcome"] for entry in answer.get("journal", ())}
    if answer["status"] == "deleted" and outcomes == {"quarantined"}:
        return _TRASHED
    return _MEANING.get(answer["status"], _KEPT)


def _sections(answer: Facts) -> Iterator[tuple[str, Iterable[str]]]:
    if ways := answer.get("live_through"):
        yield "NEEDED BY", _ways(ways, answer["ways"])
    if unread := answer.get("unread_tables"):
        yield "MAY BE NEEDED BY TABLES THAT COULD NOT BE READ", [f"{name}: {why}" for name, why in unread.items()]
    if released := answer.get("released"):
        yield "RELEASED", _released(released)
    if refused := answer.get("left_alone"):
        yield "LEFT ALONE", _refused(refused)
    if written := answer.get("written_by"):
        yield "WRITTEN BY", _written(written)
    if plan := answer.get("newest_plan"):
        yield "IN THE NEWEST PLAN", _planned(plan, answer["first_listed_at"])
    if parts := answer.get("compaction"):
        yield "COMPACTED", [line for part in parts for line in _compacted(part)]
    if entries := answer.get("journal"):
        yield "IN THE JOURNAL", [line for entry in entries for line in _journal(entry)]


def _ways(ways: Sequence[Facts], count: int) -> Iterator[str]:
    for way in ways:
        refs = f", through {one_line(way['refs'])}" if way.get("refs") else ""
        snapshot = f", snapshot {way['snapshot_id']}" if way.get("snapshot_id") is not None else ""
        yield f"{way['table']}{refs}{snapshot}" if refs or snapshot else f"{way['table']}, by its {way['by']}"
        if manifest := way.get("manifest"):
            yield f"  {manifest}"
    if more := count - len(ways):
        yield f"and in {number(more)} more ways"


def _released(released: Facts) -> Iterator[str]:
    yield f"by run {released['run_id']}, of {released['table']}, {second(released['since'])}"
    if released["until"]:
        yield f"left alone until {second(released['until'])}"


def _refused(refused: Iterable[Facts]) -> Iterator[str]:
    for one in refused:
        yield f"{one.get('table') or one.get('root')}   {one['code']}"
        yield f"  {one['message']}"
        yield f"  next: {one['hint']}"


def _written(written: Facts) -> Iterator[str]:
    yield f"{written['snapshot']}   {written['operation']}, {second(written['committed_at'])}, {written['state']}"
    writer = {name.replace("_", " "): value for name, value in written["writer"].items() if value}
    trigger = {name: value for name, value in written["trigger"].items() if value}
    for said in (writer, trigger):
        if said:
            yield ", ".join(f"{name} {value}" for name, value in said.items())
    if not writer:
        yield "the commit does not say by whom"
    yield f"known by {written['resolved_by']}"


def _planned(plan: Facts, first: str) -> Iterator[str]:
    yield f"{plan['verdict'].replace('_', ' ')}: {plan['reason']}"
    yield f"by plan {plan['plan_id']}, {second(plan['created_at'])}"
    modified = f", modified {second(plan['modified'])}" if plan["modified"] else ""
    yield f"{plan['kind']} of {plan['table']}, {size(plan['size'])}{modified}"
    yield f"first listed {second(first)}"


def _compacted(part: Facts) -> Iterator[str]:
    why = f": {part['why']}" if part.get("why") else ""
    at = f", {second(part['at'])}" if part.get("at") else ""
    yield f"{part['did']}{why}{at}"
    named = {"table": "table", "snapshot_id": "snapshot", "group": "group", "run_id": "run", "plan_id": "plan"}
    yield ", ".join(f"{label} {part[name]}" for name, label in named.items() if part.get(name) is not None)
    if actor := part.get("actor"):
        yield f"by {by_whom(actor)}"


def _journal(entry: Facts) -> Iterator[str]:
    at = f", {second(entry['at'])}" if entry["at"] else ""
    yield f"{entry['outcome']}{at}, by {by_whom(entry['actor'])}"
    plan = f", plan {entry['plan_id']}" if entry["plan_id"] else ""
    yield f"run {entry['run_id']}, batch {entry['batch']}{plan}"
