"""What others are told of by webhook: which events there are, and what each says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from lakewarden.model.plan import Plan
from lakewarden.model.redaction import redact
from lakewarden.model.run import RunStatus

# Of the tables and files that an event is about, how many it names; it counts all of them.
NAMED = 20


class WebhookEvent(StrEnum):
    REFUSAL = "refusal"
    BRAKE = "brake"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell. `about` is what makes it the same event when it is told again."""

    kind: WebhookEvent
    about: str
    content: Mapping[str, Any]


def of_plan(plan: Plan) -> Iterator[Event]:
    """A plan that left tables alone, and one that looked wrong."""
    refused = [(table.identifier, table.refusal) for table in plan.tables if table.refusal]
    others = [(name, refusal) for name, refusal in refused if name not in plan.braked]
    head = {"job": plan.job, "plan_id": plan.plan_id}
    if others:
        yield _event(
            WebhookEvent.REFUSAL,
            plan.plan_id,
            head,
            codes=dict(Counter(refusal.code for _, refusal in others)),
            tables=[{"table": name, **asdict(refusal)} for name, refusal in others[:NAMED]],
        )
    if plan.brakes:
        stopped = [(name, refusal) for name, refusal in refused if name in plan.braked]
        yield _event(
            WebhookEvent.BRAKE,
            plan.plan_id,
            head,
            brakes={brake: len(names) for brake, names in plan.brakes.items()},
            tables=[{"table": name, **asdict(refusal)} for name, refusal in stopped[:NAMED]],
        )


def of_run(run_id: str, job: str, plan_id: str | None, status: str, result: Mapping[str, Any]) -> Iterator[Event]:
    """A run that did not do all that it was to."""
    if status not in (RunStatus.FAILED, RunStatus.PARTIAL):
        return
    failed: Sequence[Any] = result.get("failed", ())
    head = {"job": job, "plan_id": plan_id, "run_id": run_id}
    yield _event(
        WebhookEvent.FAILURE,
        f"{run_id}/{status}",
        head,
        status=status,
        codes=dict(Counter(str(one.get("code")) for one in failed)),
        failed=list(failed[:NAMED]),
    )


def of_error(about: str, code: str, message: str, status: str, **head: str | None) -> Event:
    """A run that was stopped, or something that was asked for and never became a run."""
    return _event(WebhookEvent.FAILURE, about, head, status=status, codes={code: 1}, message=message)


def _event(kind: WebhookEvent, about: str, head: Mapping[str, Any], **more: Any) -> Event:
    return Event(kind, f"{kind}/{about}", redact({"event": str(kind), **head, **more}))
