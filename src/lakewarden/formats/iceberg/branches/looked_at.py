"""A change of a branch, and a look at what became of it wherever its answer does not settle that.

An answer may be lost, cut, late or another's, and a request may be sent twice on its way: then the second was refused,
because the first was taken. So a change that was refused is looked for once, and one that nobody vouches for until our
patience ends.
"""

from __future__ import annotations

from collections.abc import Callable

from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_exponential

from lakewarden.model.errors import (
    CatalogUnavailableError,
    DoubtfulCommitError,
    LakewardenError,
    StoreUnavailableError,
    UnreadableMetadataError,
)

FIRST_LOOK, LONGEST_LOOK, LOOK_FOR = 0.5, 10.0, 60.0  # seconds
UNSEEN = (CatalogUnavailableError, StoreUnavailableError, UnreadableMetadataError)


def changed(what: str, change: Callable[[], object], made: Callable[[], bool]) -> None:
    """Make a change, and return when it is certain that it was made.

    `made` looks whether it was, and raises whatever shows that it never will be. What `change` raised is raised again if
    the change was not made; DoubtfulCommitError if nobody can tell.
    """
    try:
        change()
    except DoubtfulCommitError as doubt:
        if not _look(what, made, doubt, patient=True):
            raise DoubtfulCommitError(
                f"{doubt.message}; {what} was looked at for {LOOK_FOR:.0f} seconds without a trace of it",
                hint=doubt.hint,
            ) from doubt
    except LakewardenError as no:
        if not _look(what, made, no, patient=False):
            raise


def _look(what: str, made: Callable[[], bool], why: LakewardenError, *, patient: bool) -> bool:
    again = retry_if_exception_type(UNSEEN)
    looks = Retrying(
        retry=again | retry_if_result(lambda found: not found) if patient else again,
        stop=stop_after_delay(LOOK_FOR),
        wait=wait_exponential(FIRST_LOOK, LONGEST_LOOK),
    )
    try:
        return bool(looks(made))
    except RetryError as error:
        if not error.last_attempt.failed:
            return False
        raise DoubtfulCommitError(
            f"{why.message}; {what} could not be looked at for {LOOK_FOR:.0f} seconds "
            f"({error.last_attempt.exception()}), so it may or may not have been made",
            hint=why.hint if isinstance(why, DoubtfulCommitError) else None,
        ) from why
