"""Answers that stay true for as long as a version stays the same: asked again, they are not worked out again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Remembered:
    """The answers of one version, the last used of them, from any thread. Another version forgets them all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._turn = threading.Lock()
        self._version: Hashable = None
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()

    def answer(self, version: Hashable, question: Hashable, work_out: Callable[[], T]) -> T:
        """What `work_out` said when this question was first asked of this version. Nothing is remembered of version None."""
        if version is None:
            return work_out()
        with self._turn:
            if version != self._version:
                self._version = version
                self._answers.clear()
            if question in self._answers:
                self._answers.move_to_end(question)
                found: T = self._answers[question]
                return found
        made = work_out()
        with self._turn:
            # Whoever worked with an older version meanwhile has an answer that is old by now.
            if version == self._version:
                self._answers[question] = made
                while len(self._answers) > self._most:
                    self._answers.popitem(last=False)
        return made
