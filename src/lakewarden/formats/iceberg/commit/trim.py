"""Lets a table name fewer old metadata files: its own property says how many, and each commit cuts the log to that length."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakewarden.foreign.json_text import integer_text
from lakewarden.formats.iceberg.commit.next_document import KEPT_VERSIONS, PREVIOUS_VERSIONS
from lakewarden.formats.iceberg.commit.versions import MovedOnError, Versions
from lakewarden.formats.iceberg.metadata.known import Version
from lakewarden.model.errors import CommitConflictError, PlanOutdatedError
from lakewarden.model.table import name_within

TRIES = 5


class Trimmer:
    """Trims through one catalog. No snapshot is made, and no file is touched."""

    def __init__(self, versions: Callable[[], Versions]) -> None:
        self._versions = versions

    def trim(self, identifier: str, uuid: str, keep: int, by: Mapping[str, str]) -> Version | None:
        """The next version, whose log names at most `keep` files; None if the table says so already.

        A table that keeps fewer by its own property is left alone. `by` are properties that say who asked for it.
        """
        versions, table = self._versions(), name_within(identifier)

        def once() -> Version | None:
            version = versions.current(table)
            if version.document.get("table-uuid") != uuid:
                raise PlanOutdatedError(f"{identifier} was dropped and made again; nothing of it was changed")
            if kept_versions(version.document.get("properties") or {}) <= keep:
                return None
            return versions.set_properties(table, version, {PREVIOUS_VERSIONS: str(keep), **by})

        tries = Retrying(
            retry=retry_if_exception_type(MovedOnError),
            stop=stop_after_attempt(TRIES),
            wait=wait_random_exponential(0.05, 2.0),
            reraise=True,
        )
        try:
            return tries(once)
        except MovedOnError as conflict:
            raise CommitConflictError(
                f"{identifier} changed {TRIES} times while its metadata log was about to be cut ({conflict}); "
                "nothing of it was changed"
            ) from conflict


def kept_versions(properties: Mapping[str, object]) -> int:
    """How many old metadata files a table names by its own property. One that is no number is not ours to correct."""
    try:
        return max(1, integer_text(str(properties.get(PREVIOUS_VERSIONS, KEPT_VERSIONS))))
    except (TypeError, ValueError):
        return 1
