"""Names as 64-bit hashes: the same name has the same hash in every process and in every run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pandas.util import hash_array

Hashes = NDArray[np.uint64]


def key_hashes(keys: pa.Array) -> Hashes:
    hashes: Hashes = hash_array(keys.to_numpy(zero_copy_only=False).astype(object), categorize=False)
    return hashes


def repeated_hashes(keys: pa.ChunkedArray) -> Hashes:
    """The hashes of keys that come up again and again, as in the manifests of many snapshots: each is hashed once."""
    encoded = pc.dictionary_encode(keys).unify_dictionaries().chunks
    if not encoded:
        return np.empty(0, np.uint64)
    indices = np.concatenate([chunk.indices.to_numpy() for chunk in encoded])
    return np.take(key_hashes(encoded[0].dictionary), indices)
