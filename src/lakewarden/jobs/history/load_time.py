"""How long it takes to load a table: to find it in its catalog, and to fetch and parse its metadata."""

from __future__ import annotations

import time

from lakewarden.steps.deployment import Deployment, required
from lakewarden.steps.observe.fleet import pointer_of


def load_ms_of(deployment: Deployment, identifier: str, times: int = 1) -> float:
    """Milliseconds, as every reader needs them first; of several times the least. Nothing that is remembered is used."""
    historian = required(deployment.format_of(identifier).historian, identifier)

    def once() -> float:
        began = time.perf_counter()
        if (found := pointer_of(deployment, identifier)) is not None:
            historian.read_anew(found[1].metadata_location)
        return (time.perf_counter() - began) * 1000

    return round(min(once() for _ in range(times)), 2)
