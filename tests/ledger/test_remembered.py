"""Answers that are remembered for as long as a version stays the same."""

from __future__ import annotations

from lakewarden.ledger.remembered import Remembered


def test_the_least_used_answer_goes_first_and_another_version_forgets_all() -> None:
    kept, made = Remembered(2), []

    def ask(version: int | None, question: str) -> str:
        return kept.answer(version, question, lambda: made.append(question) or f"{question} of {version}")

    assert [ask(1, name) for name in "abacab"] == ["a of 1", "b of 1", "a of 1", "c of 1", "a of 1", "b of 1"]
    assert "".join(made) == "abcb"
    assert ask(2, "a") == "a of 2"
    assert ask(1, "a") == "a of 1"
    assert ask(None, "a") == "a of None"
    assert ask(None, "a") == "a of None"
    assert "".join(made) == "abcb" + "aa" + "aa"


def test_an_answer_of_a_version_that_is_over_meanwhile_is_not_kept() -> None:
    kept = Remembered(4)

    def while_working() -> str:
        kept.answer(2, "other", lambda: "new")
        return "old"

    assert kept.answer(1, "a", while_working) == "old"
    assert kept.answer(2, "a", lambda: "new") == "new"
