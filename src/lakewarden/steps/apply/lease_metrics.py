"""What leases cost a run: conflicts and losses, written down when the run is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewarden.model.errors import LakewardenError
from lakewarden.steps.deployment import Deployment


@contextmanager
def counting_leases(deployment: Deployment) -> Iterator[None]:
    """Add to the metrics what this process met with leases, whatever ends the block."""
    try:
        yield
    finally:
        counts = deployment.leases.counts
        if more := counts.take():
            try:
                deployment.ledger.metrics.add_leases(more)
            except LakewardenError:
                # Only a count: it must not hide what ended the run, and goes with the next one of this process.
                counts.give_back(more)
