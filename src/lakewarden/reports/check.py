"""`config check`: every part that a configuration names is asked at the same time, each within a time of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lakewarden.model.errors import UNCHANGED, Exit, LakewardenError
from lakewarden.model.redaction import redact

LOOK_AGAIN_SECONDS = 0.1
UNDONE = "; nothing was planned or changed"

# Told which parts have not answered yet, again and again while they are waited for.
Waiting = Callable[[Sequence[str]], None]


class Status(StrEnum):
    OK = "ok"
    DOUBTFUL = "doubtful"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Found:
    """What a part answered. A hint makes it doubtful: it works, and may not be what its user meant."""

    words: str
    hint: str = ""
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """One part of the deployment, and how it is asked. `silent` is the error of a part that does not answer in time."""

    part: str
    ask: Callable[[], Found]
    seconds: float
    silent: type[LakewardenError]
    patience: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one question: a line of the report. `unanswered`: its thread may still wait for the part."""

    part: str
    status: Status
    found: str
    hint: str = ""
    code: str | None = None
    exit_code: Exit = Exit.DONE
    unanswered: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "status": str(self.status),
            "found": self.found,
            "code": self.code,
            "hint": self.hint or None,
        }


@dataclass(slots=True)
class _Asked:
    question: Question
    since: float
    done: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None


def answered(part: str, found: Found) -> Answer:
    status = Status.SKIPPED if found.skipped else Status.DOUBTFUL if found.hint else Status.OK
    return Answer(part, status, redact(found.words), redact(found.hint))


def failed(part: str, error: LakewardenError, unanswered: bool = False) -> Answer:
    """The line of a part that is not as it should be. What the configuration has wrong is told by its exit code."""
    exit_code = Exit.USAGE if error.exit_code is Exit.USAGE else Exit.FAILED
    # That nothing was done goes without saying here.
    message, hint = error.message.removesuffix(UNDONE), error.hint.removeprefix(UNCHANGED)
    return Answer(part, Status.FAILED, redact(message), redact(hint), error.code, exit_code, unanswered)


def exit_code(answers: Sequence[Answer]) -> Exit:
    """64 where the configuration is wrong, 1 where a part of the deployment is, else 0."""
    codes = {answer.exit_code for answer in answers}
    return Exit.USAGE if Exit.USAGE in codes else Exit.FAILED if Exit.FAILED in codes else Exit.DONE


def as_json(answers: Sequence[Answer]) -> dict[str, Any]:
    return {"ok": exit_code(answers) is Exit.DONE, "checks": [answer.as_json() for answer in answers]}


def ask_all(questions: Sequence[Question], waiting: Waiting) -> Iterator[Answer]:
    """One answer for each question, in their order, as soon as it and those before it are there.

    A part that hangs is reported when its time is over, and holds nobody else: its thread is left behind, and dies with
    the process.
    """
    asked = [_Asked(question, time.monotonic()) for question in questions]
    for one in asked:
        threading.Thread(target=_ask, args=(one,), name=f"check {one.question.part}", daemon=True).start()
    for one in asked:
        while not one.done.wait(LOOK_AGAIN_SECONDS) and time.monotonic() < one.since + one.question.seconds:
            waiting([other.question.part for other in asked if not other.done.is_set()])
        # The answer may have come between the last look and now: it counts.
        yield one.answer or _silence(one.question)


def _ask(asked: _Asked) -> None:
    part = asked.question.part
    try:
        asked.answer = answered(part, asked.question.ask())
    except LakewardenError as error:
        asked.answer = failed(part, error)
    except Exception as error:
        # A library's own error, which nobody has given a name: still a line, and never a traceback.
        asked.answer = failed(part, asked.question.silent(f"unexpected {type(error).__name__}: {error}"))
    finally:
        asked.done.set()


def _silence(question: Question) -> Answer:
    error = question.silent(f"no answer within {question.seconds:g} s")
    if question.patience:
        error.hint = question.patience
    return failed(question.part, error, unanswered=True)
