"""Which objects of a batch are there now, with their tags: page by page of a listing where that is cheap, else one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from posixpath import commonpath

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Stat
from lakewarden.storage.objects import ObjectStore

PAGE = 1000
_LOOKS_A_PAGE = 12  # what one page of a listing costs, in single looks
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def look(store: ObjectStore, keys: Sequence[str]) -> list[Stat | Exception | None]:
    """Each key's state, in order. What no page shows, and what is too scattered for pages, is looked at by itself."""
    found: dict[str, Stat | Exception | None] = dict(_listed(store, sorted(set(keys))))
    single = [key for key in keys if key not in found]
    found.update(zip(single, store.head_many(single), strict=True))
    return [found[key] for key in keys]


def _listed(store: ObjectStore, keys: list[str]) -> dict[str, Stat]:
    """The keys seen on pages, each of which begins at the first key not yet reached."""
    seen: dict[str, Stat] = {}
    reached = pages = 0
    try:
        while len(keys) - reached >= _LOOKS_A_PAGE and len(seen) >= pages * _LOOKS_A_PAGE:
            directory = commonpath([keys[reached], keys[-1]])
            page = _page(store, directory, keys[reached], keys[-1]) if directory else None
            if page is None:
                break
            names, last = _stats(store, page)
            upto = bisect_right(keys, last)
            seen |= {key: names[key] for key in keys[reached:upto] if key in names}
            reached, pages = max(upto, reached + 1), pages + 1
    except (StoreUnavailableError, FileNotFoundError):
        pass  # an unlistable neighbour: look at each key by itself
    return seen


def _page(store: ObjectStore, directory: str, first: str, last: str) -> pa.RecordBatch | None:
    before = first[:-1]  # sorts before the first key, so that it is in the range
    return next(iter(store.list(directory, after=before, until=last, page=PAGE)), None)


def _stats(store: ObjectStore, page: pa.RecordBatch) -> tuple[dict[str, Stat], str]:
    """The objects of a page by key, without those whose name may stand for another; and the page's last key."""
    start = len(f"{store.scheme}://{store.bucket}/")
    last = str(page["key"][-1].as_py())[start:]
    plain = page.filter(pc.is_null(page["flag"]))
    names = [uri[start:] for uri in plain["key"].to_numpy(zero_copy_only=False).tolist()]
    times = plain["modified"].cast(pa.int64()).to_pylist()
    columns = (plain[name].to_numpy(zero_copy_only=False).tolist() for name in ("size", "etag"))
    return {
        key: Stat(key, size, None if at is None else _EPOCH + timedelta(microseconds=at), etag)
        for key, at, size, etag in zip(names, times, *columns, strict=True)
    }, last
