"""The files of a batch by column: thousands are carried as a few lists, and one becomes an object where it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import overload

from lakewarden.model.ports import JournalFile

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class BatchFiles(Sequence[JournalFile]):
    """Files as a plan listed them. `modified` is in microseconds since 1970, UTC."""

    uris: Sequence[str]
    sizes: Sequence[int]
    modified: Sequence[int | None]
    etags: Sequence[str | None]
    tables: Sequence[str]
    kinds: Sequence[str]

    @staticmethod
    def of(files: Sequence[JournalFile]) -> BatchFiles:
        """The same files by column."""
        if isinstance(files, BatchFiles):
            return files
        return BatchFiles(
            [file.uri for file in files],
            [file.size for file in files],
            [None if file.modified is None else (file.modified - _EPOCH) // _MICROSECOND for file in files],
            [file.etag for file in files],
            [file.table for file in files],
            [str(file.kind) for file in files],
        )

    def take(self, places: Sequence[int]) -> BatchFiles:
        """Some of them, in the order asked; all of them at no cost."""
        if len(places) == len(self):
            return self
        columns = (self.uris, self.sizes, self.modified, self.etags, self.tables, self.kinds)
        return BatchFiles(*([column[place] for place in places] for column in columns))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.uris)

    @overload
    def __getitem__(self, place: int) -> JournalFile: ...

    @overload
    def __getitem__(self, place: slice) -> BatchFiles: ...

    def __getitem__(self, place: int | slice) -> JournalFile | BatchFiles:
        if isinstance(place, slice):
            return self.take(range(*place.indices(len(self))))
        at = self.modified[place]
        modified = None if at is None else _EPOCH + timedelta(microseconds=at)
        return JournalFile(
            self.uris[place], self.sizes[place], modified, self.etags[place], self.tables[place], self.kinds[place]
        )  # fmt: skip
