"""Calls that are made once: what Spark found for the first form of a command is shown in the others."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any


def once(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, with its first answer or error given again, and whom it told of something told again."""
    told: list[tuple[str, tuple[Any, ...]]] = []
    answers: list[Any] = []
    errors: list[BaseException] = []

    @functools.wraps(call)
    def answered(*given: Any, **more: Any) -> Any:
        if not answers and not errors:
            noted = {name: _noting(told, name, value) if callable(value) else value for name, value in more.items()}
            try:
                answers.append(call(*given, **noted))
            except BaseException as error:
                errors.append(error)
                raise
            return answers[0]
        for name, words in told:
            more[name](*words)
        if errors:
            raise errors[0]
        return answers[0]

    return answered


def _noting(told: list[tuple[str, tuple[Any, ...]]], name: str, listener: Callable[..., Any]) -> Callable[..., Any]:
    own = threading.get_ident()

    def note(*words: Any) -> Any:
        # What goes on beside, such as the start of Spark, is over at another moment each time.
        if threading.get_ident() == own:
            told.append((name, words))
        return listener(*words)

    return note
