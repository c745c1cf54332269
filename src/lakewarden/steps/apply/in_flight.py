"""Files that a writer at work may be about to commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from lakewarden.model.files import BatchFiles
from lakewarden.model.ports import Heartbeat
from lakewarden.model.prefixes import Prefixes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def without_writers(files: BatchFiles, writers: Sequence[Heartbeat]) -> BatchFiles:
    """The files that no writer may have begun: under none of their prefixes, or modified before each of those began."""
    if not writers:
        return files
    began: dict[str, int] = {}
    for writer in writers:
        since = (writer.covers_from - _EPOCH) // _MICROSECOND
        began[writer.prefix] = min(since, began.get(writer.prefix, since))
    prefixes = Prefixes(began)

    def written(place: int) -> bool:
        modified = files.modified[place]
        return any(modified is None or modified >= began[prefix] for prefix in prefixes.all_of(files.uris[place]))

    return files.take([place for place in range(len(files)) if not written(place)])
