"""Worlds for the tests of applying, closed at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import World, make_world

# Spark's workers need the stores and the decoder, which live in this environment and no other.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

MakeWorld = Callable[..., World]


@pytest.fixture
def world_of(tmp_path: Path) -> Iterator[MakeWorld]:
    """Makes worlds of given tables and policy."""
    made: list[World] = []

    def make(*tables: str, **policy: Any) -> World:
        world = make_world(tmp_path / f"world{len(made)}", *([tables] if tables else []), **policy)
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    """Two tables with six orphans each."""
    return world_of()
