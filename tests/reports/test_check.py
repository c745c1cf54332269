"""Parts are asked at the same time, each within its own time, and whatever one of them does, the others are told."""

from __future__ import annotations

import threading

import pytest

from lakewarden.model.errors import CatalogUnavailableError, ConfigError, Exit, LakewardenError, StateError
from lakewarden.reports.check import Answer, Found, Question, Status, as_json, ask_all, exit_code


def question(part: str, ask: object, seconds: float = 30.0) -> Question:
    return Question(part, ask, seconds, CatalogUnavailableError)  # type: ignore[arg-type]


def quiet(_: object) -> None:
    pass


def raising(error: Exception) -> object:
    def ask() -> Found:
        raise error

    return ask


def test_all_are_asked_at_the_same_time_and_answer_in_order() -> None:
    # Nobody passes the barrier before the third has come.
    together = threading.Barrier(3, timeout=20)

    def ask() -> Found:
        together.wait()
        return Found("is there")

    answers = list(ask_all([question(part, ask) for part in "abc"], quiet))
    assert [(answer.part, answer.status) for answer in answers] == [(part, Status.OK) for part in "abc"]


def test_one_that_hangs_is_told_when_its_time_is_over_and_holds_nobody() -> None:
    never = threading.Event()
    waited: list[list[str]] = []

    def hang() -> Found:
        never.wait()
        return Found("too late")

    asked = [question("hanging", hang, 0.5), question("well", lambda: Found("is there"))]
    answers = list(ask_all(asked, lambda parts: waited.append(list(parts))))
    never.set()
    assert [answer.status for answer in answers] == [Status.FAILED, Status.OK]
    assert answers[0].unanswered
    assert answers[0].found == "no answer within 0.5 s"
    assert answers[0].code == CatalogUnavailableError.code
    assert waited[-1] == ["hanging"]


@pytest.mark.parametrize(
    ("error", "code", "exits"),
    [
        (ConfigError("no such key"), ConfigError.code, Exit.USAGE),
        (StateError("is down"), StateError.code, Exit.FAILED),
        (ZeroDivisionError("a library's own"), CatalogUnavailableError.code, Exit.FAILED),
    ],
)
def test_an_error_is_a_line_with_its_code(error: Exception, code: str, exits: Exit) -> None:
    (answer,) = ask_all([question("part", raising(error))], quiet)
    assert (answer.status, answer.code, answer.exit_code) == (Status.FAILED, code, exits)
    assert answer.hint


def test_a_secret_in_an_error_or_a_hint_is_masked() -> None:
    error = LakewardenError("https://ana:hunter2@host said password=hunter2", hint="Not token=hunter2.")
    (answer,) = ask_all([question("part", raising(error))], quiet)
    assert "hunter2" not in f"{answer}"


def test_the_configuration_is_blamed_first() -> None:
    ok, wrong = Answer("a", Status.OK, ""), Answer("b", Status.FAILED, "", exit_code=Exit.FAILED)
    usage = Answer("c", Status.FAILED, "", exit_code=Exit.USAGE)
    doubtful = Answer("d", Status.DOUBTFUL, "", hint="h")
    assert exit_code([ok, doubtful]) is Exit.DONE
    assert exit_code([ok, wrong]) is Exit.FAILED
    assert exit_code([wrong, usage]) is Exit.USAGE
    assert as_json([ok, doubtful])["ok"] is True
    assert as_json([wrong])["ok"] is False
