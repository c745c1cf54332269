"""The pages of a column chunk, counted as its bytes go by: proof that they are whole and where the footer says."""

from __future__ import annotations

import zlib

from lakewarden.formats.iceberg.data.thrift import GarbledError, ShortError, Struct, loads

KIND, UNPACKED, PACKED, CHECKSUM, DATA, _INDEX, DICTIONARY, DATA_V2 = range(1, 9)
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = range(4)
# A header may hold the least and greatest value of its page, whole.
_LARGEST_HEADER = 1 << 20


class PageWalk:
    """Takes the bytes of one chunk piece by piece. Raises GarbledError where they are not the pages that the footer tells of."""

    def __init__(self, values: int) -> None:
        self._wanted, self._values = values, 0
        self._held = b""
        self._left = 0
        self._checksum: int | None = None
        self._sum = 0
        self._pages = 0

    def take(self, piece: bytes | memoryview) -> None:
        view = memoryview(self._held + bytes(piece)) if self._held else memoryview(piece)
        self._held = b""
        at = 0
        while at < len(view):
            if self._left:
                at += self._body(view[at : at + self._left])
                continue
            try:
                # No more of it than a header may have: what is read of one is a hundred times as large in memory.
                header, length = loads(view[at : at + _LARGEST_HEADER])
            except ShortError:
                if len(view) - at >= _LARGEST_HEADER:
                    raise
                self._held = bytes(view[at:])
                return
            at += length
            self._begin(header)

    def close(self) -> None:
        """The chunk is over."""
        if self._left or self._held or self._values != self._wanted:
            raise GarbledError(f"a column has {self._values} values in its pages and should have {self._wanted}")

    def _begin(self, header: Struct) -> None:
        kind, length = (
            header[KIND].value if KIND in header else None,
            header[PACKED].value if PACKED in header else None,
        )
        if not isinstance(length, int) or length < 0:
            raise GarbledError("a page has no length")
        if kind in (_DATA_PAGE, _DATA_PAGE_V2):
            self._values += _values(header, DATA if kind == _DATA_PAGE else DATA_V2)
        elif kind == _DICTIONARY_PAGE and not self._pages:
            pass
        elif kind != _INDEX_PAGE:
            raise GarbledError(f"a page is of the kind {kind}")
        self._pages += 1
        self._left = length
        self._checksum = header[CHECKSUM].value & 0xFFFFFFFF if CHECKSUM in header else None
        self._sum = 0
        if not length:
            self._end_page()

    def _body(self, piece: memoryview) -> int:
        if self._checksum is not None:
            self._sum = zlib.crc32(piece, self._sum)
        self._left -= len(piece)
        if not self._left:
            self._end_page()
        return len(piece)

    def _end_page(self) -> None:
        if self._checksum is not None and self._sum != self._checksum:
            raise GarbledError("a page is damaged: its checksum is another")


def _values(header: Struct, number: int) -> int:
    if number not in header or not isinstance(header[number].value, dict) or 1 not in header[number].value:
        raise GarbledError("a page does not say how many values it has")
    found = header[number].value[1].value
    if not isinstance(found, int) or found < 0:
        raise GarbledError("a page has a wrong number of values")
    return found
