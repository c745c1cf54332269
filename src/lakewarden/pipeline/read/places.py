"""Which root each name lies in, a column at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.roots import BY_NAME, Root

NO_ROOT = -1
BY_NAME_ROOT = -2  # the name of a file that is known by name alone, wherever it lies


@dataclass(frozen=True, slots=True)
class Places:
    """The roots of a fleet, which are disjoint, sorted by prefix."""

    prefixes: tuple[str, ...]
    ids: tuple[int, ...]

    @staticmethod
    def of(roots: Iterable[Root]) -> Places:
        ordered = sorted(roots, key=lambda root: root.prefix)
        return Places(tuple(root.prefix for root in ordered), tuple(root.id for root in ordered))

    def root_of(self, name: str) -> int:
        if name.startswith(BY_NAME):
            return BY_NAME_ROOT
        at = bisect_right(self.prefixes, name) - 1
        return self.ids[at] if at >= 0 and name.startswith(self.prefixes[at]) else NO_ROOT

    def root_of_all(self, beginning: str) -> int | None:
        """The root that every name with this beginning lies in; None if some may lie in one and others not."""
        at = bisect_right(self.prefixes, beginning)
        if at < len(self.prefixes) and self.prefixes[at].startswith(beginning):
            return None
        return self.root_of(beginning)

    def roots_of(self, names: pa.Array) -> NDArray[np.int32]:
        """The root of each name. Many names share a directory, which is looked up once."""
        encoded = pc.dictionary_encode(pc.replace_substring_regex(names, r"[^/]*$", ""))
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        found = np.array([self.root_of(directory) for directory in encoded.dictionary.to_pylist()], np.int32)
        return found[encoded.indices.to_numpy()] if len(found) else np.empty(0, np.int32)
