"""What the methods of the Python API take: one rule for each name of an argument, checked before anything is done.

A name means the same in every method, so a rule belongs to the name: `select` is one pattern or several wherever it
stands. A method that means something else by a name has a rule of its own, `runs.limit`. A method with an argument that
has no rule cannot be defined.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import wraps
from reprlib import repr as shortly
from typing import Any, ParamSpec, TypeVar

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import ArgumentError
from lakewarden.model.lineage import OPERATIONS, Requirements
from lakewarden.model.plan import Plan
from lakewarden.model.run import PlanResult
from lakewarden.model.stop import StopToken
from lakewarden.model.verdict import Brake, Verdict

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
# Takes what was given, answers with what the method works with. Raises UnfitError, which says what was expected.
Rule = Callable[[Any], Any]
MOST = 1_000_000_000


class UnfitError(Exception):
    """Something else was expected; the text says what."""


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not _can_be_written(value):
        raise UnfitError("a text that is not empty")
    return value


def words(value: Any) -> str:
    """Like `text`, but may be empty."""
    if value == "" and isinstance(value, str):
        return value
    try:
        return text(value)
    except UnfitError:
        raise UnfitError("a text") from None


def place(value: Any) -> str:
    try:
        return text(os.fspath(value) if isinstance(value, os.PathLike) else value)
    except UnfitError:
        raise UnfitError("a path or an address") from None


def several(value: Any) -> tuple[str, ...]:
    """One text, or several: a text is one of them, never its letters."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, list | tuple | set | frozenset):
        raise UnfitError("one text or a list of texts")
    try:
        return tuple(text(one) for one in given)
    except UnfitError:
        raise UnfitError("one text or a list of texts, none of them empty") from None


def patterns(value: Any) -> tuple[str, ...]:
    """Like `several`, but a list that came out empty chooses no table, and must not be taken for every table."""
    if isinstance(value, list | set | frozenset) and not value:
        raise UnfitError("one text or a list of texts, and left out for every table")
    return several(value)


def session(value: Any) -> Any:
    """By its name, whoever made the class: what cannot be worked with is refused by codes of its own."""
    if all(kind.__name__ != "SparkSession" for kind in type(value).__mro__):
        raise UnfitError("a Spark session")
    return value


def number(least: float) -> Rule:
    def rule(value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or not least <= value <= MOST:
            raise UnfitError(f"a number of at least {least:g} and at most {MOST}")
        return float(value)

    return rule


def whole(least: int) -> Rule:
    def rule(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
            raise UnfitError(f"a whole number of at least {least} and at most {MOST}")
        return value

    return rule


def yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UnfitError("True or False")
    return value


def one_of(kind: type[StrEnum]) -> Rule:
    def rule(value: Any) -> Any:
        if not isinstance(value, str) or value not in list(kind):
            raise UnfitError(f"one of {', '.join(kind)}")
        return kind(value)

    return rule


def brakes(value: Any) -> tuple[str, ...]:
    try:
        return tuple(one_of(Brake)(name) for name in several(value))
    except UnfitError:
        raise UnfitError(f"names of brakes, of {', '.join(Brake)}") from None


def actor(value: Any) -> Actor:
    try:
        if isinstance(value, Actor):
            or_none(text)(value.ticket)
            return Actor(text(value.operator), text(value.worker), one_of(Trigger)(value.trigger), value.ticket)
    except UnfitError:
        pass
    raise UnfitError("an Actor, whose operator and worker are texts")


def function_of(what: str) -> Rule:
    def rule(value: Any) -> Any:
        if not callable(value):
            raise UnfitError(f"a function of {what}")
        return value

    return rule


call_back = function_of("(stage, done, total)")


def stop_token(value: Any) -> StopToken:
    if not isinstance(value, StopToken):
        raise UnfitError("a StopToken")
    return value


def plan(value: Any) -> str | PlanResult:
    try:
        return value if isinstance(value, PlanResult) else place(value)
    except UnfitError:
        raise UnfitError("a PlanResult or a plan's directory") from None


def header(value: Any) -> Plan:
    if not isinstance(value, Plan | PlanResult):
        raise UnfitError("a Plan or a PlanResult")
    return value.plan if isinstance(value, PlanResult) else value


def snapshot(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    try:
        return text(value)
    except UnfitError:
        raise UnfitError("a snapshot's id, as a number or a text") from None


def or_none(rule: Rule) -> Rule:
    return lambda value: None if value is None else rule(value)


def _can_be_written(value: str) -> bool:
    """Whether a text can be kept in a database and sent to a store."""
    try:
        return "\x00" not in value and bool(value.encode())
    except UnicodeEncodeError:
        return False


def count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise UnfitError("a count: a whole number that is not negative")
    return value


def operation(value: Any) -> str:
    if not isinstance(value, str) or value not in OPERATIONS:
        raise UnfitError(f"one of {', '.join(sorted(OPERATIONS))}")
    return value


def of_kind(kind: type | tuple[type, ...], what: str) -> Rule:
    def rule(value: Any) -> Any:
        if not isinstance(value, kind):
            raise UnfitError(what)
        return value

    return rule


def options_of(value: Any) -> Any:
    if not callable(getattr(value, "option", None)):
        raise UnfitError("a writer of PySpark's, such as df.writeTo(…) or df.write")
    return value


def anything(value: Any) -> Any:
    """For what is looked at later, by whoever knows its kinds."""
    return value


RULES: Mapping[str, Rule] = {
    "actor": or_none(actor),
    "config": or_none(place),
    "exclude": several,
    "identifier": text,
    "job": text,
    "jobs": several,
    "key": text,
    "limit": or_none(whole(1)),
    "runs.limit": whole(1),
    "out": or_none(place),
    "report.out": place,
    "override_brakes": brakes,
    "plan": plan,
    "open.spark": or_none(session),
    "standing.plan": header,
    "plan_a": place,
    "plan_b": place,
    "plan_dir": place,
    "planned": or_none(function_of("a PlanResult")),
    "prefix": or_none(place),
    "progress": or_none(call_back),
    "reason": words,
    "release_lease.reason": text,
    "run_id": text,
    "audit_verify.run_id": or_none(text),
    "select": patterns,
    "snapshot": snapshot,
    "subject": snapshot,
    "spark": yes_or_no,
    "stop": stop_token,
    "table": text,
    "timeout": number(0),
    "told": or_none(function_of("a NightResult")),
    "token": text,
    "ttl_seconds": whole(1),
    "url": text,
    "unsafe_short_grace": several,
    "uri": text,
    "audit_who.uri": snapshot,
    "commit_hash": or_none(text),
    "fleet": anything,
    "inputs": anything,
    "invocation": or_none(text),
    "lineage.writer": text,
    "on.table": anything,
    "on.writer": options_of,
    "operation": operation,
    "operator": or_none(text),
    "properties.table": anything,
    "requirements": or_none(of_kind(Requirements, "Requirements")),
    "rows": or_none(count),
    "validate_lineage.requirements": of_kind((Requirements, Mapping), "Requirements, or the properties of a table"),
    "session.spark": session,
    "session.table": anything,
    "size": or_none(count),
    "summary": of_kind(Mapping, "a snapshot's summary"),
    "ticket": or_none(text),
    "trigger": one_of(Trigger),
    "audit_downstream.limit": whole(1),
    "uuid": text,
    "verbose": yes_or_no,
    "verdict": or_none(one_of(Verdict)),
    "wait": or_none(number(0)),
    "waiting": or_none(call_back),
    "with_forecast": yes_or_no,
    "writer": or_none(text),
}


def checks_arguments(kind: type[C]) -> type[C]:
    """A class whose public methods take nothing that their rules do not."""
    for name, member in list(vars(kind).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(kind, name, checked(member))
    return kind


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, behind the rules of its arguments. Raises ArgumentError, which names the argument."""
    name, signature = function.__name__.lstrip("_"), inspect.signature(function)
    rules = {one: RULES.get(f"{name}.{one}") or RULES[one] for one in signature.parameters if one != "self"}

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        try:
            bound = signature.bind(*given, **named)
        except TypeError as error:
            raise ArgumentError(f"{name}: {error}; nothing was done") from None
        for one, value in bound.arguments.items():
            try:
                bound.arguments[one] = rules[one](value) if one in rules else value
            except UnfitError as expected:
                told = f"{name}: {one} must be {expected}, and not {shortly(value)}; nothing was done"
                raise ArgumentError(told, argument=one) from None
        return function(*bound.args, **bound.kwargs)

    return call
