"""A scene: one command in one outcome. It sets the lake up and names the words to type; its name is that of its files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from tests.golden.lake import GoldenLake

Words = Sequence[str]
Held = TypeVar("Held")


@dataclass
class Stage:
    """What a scene may use: the lake, patches that last as long as the command, and things to hold meanwhile."""

    lake: GoldenLake
    patch: pytest.MonkeyPatch
    _held: ExitStack = field(default_factory=ExitStack)

    def at(self, moment: str) -> None:
        self.lake.at(moment)

    def __getitem__(self, name: str) -> str:
        """A plan's address or a run's id."""
        return self.lake.names[name]

    def setting(self, name: str, value: str) -> None:
        """A setting of the configuration, `section.key`."""
        section, _, key = name.partition(".")
        self.patch.setenv(f"LAKEWARDEN_{section.upper()}__{key.upper()}", value)

    def hold(self, held: AbstractContextManager[Held]) -> Held:
        return self._held.enter_context(held)

    def for_ever(self) -> None:
        """Work of a command that ends long after the command itself: here it ends with the scene, and its thread with it."""
        over, thread = threading.Event(), threading.current_thread()

        def end() -> None:
            over.set()
            thread.join(30)
            assert not thread.is_alive()

        self._held.callback(end)
        over.wait()
        raise TimeoutError("nobody waits for this any more")

    def close(self) -> None:
        self._held.close()


Setting = Callable[[Stage], Words]


@dataclass(frozen=True)
class Scene:
    """`setting` is called before each form of the command, since most commands change what the next one would find."""

    name: str
    setting: Setting
    exit_code: int
    answer: str
    """What a person types. Only a terminal has one, so such a scene has no other form."""
    planned_once: bool
    """The command plans with Spark: what it found for the first form serves the others."""
    has_json: bool


SCENES: dict[str, Scene] = {}


def scene(
    name: str, exit_code: int = 0, *, answer: str = "", planned_once: bool = False, has_json: bool = True
) -> Callable[[Setting], None]:
    def register(setting: Setting) -> None:
        assert name not in SCENES, name
        SCENES[name] = Scene(name, setting, exit_code, answer, planned_once, has_json)

    return register
