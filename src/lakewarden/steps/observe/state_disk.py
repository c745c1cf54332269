"""The disk that the state lies on: looked at before anything is written there, and named when a write has failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewarden.ledger.disk import unwritable
from lakewarden.model.errors import LakewardenError, SparkFailedError, StateUnwritableError, StoreUnavailableError
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment


def check_state_disk(deployment: Deployment, left: str) -> None:
    """Raise if nothing can be written to the state location now. `left` says what was not done because of it."""
    if (why := _unwritable(deployment.state)) is not None:
        raise StateUnwritableError(f"state.location cannot be written to: {why}; {left}")


@contextmanager
def naming_state_disk(deployment: Deployment) -> Iterator[None]:
    """Name the state's disk in an error of a store or of Spark, if that disk is full or may only be read by then."""
    try:
        yield
    except (StoreUnavailableError, SparkFailedError) as error:
        if (why := _unwritable(deployment.state)) is None:
            raise
        named: LakewardenError = StateUnwritableError(f"state.location cannot be written to: {why} ({error.message})")
        if error.done:
            named.after(error.done)
        raise named from error


def _unwritable(state: str) -> str | None:
    place = FileUri.parse(state)
    return unwritable(f"/{place.key}") if place.scheme == "file" else None
