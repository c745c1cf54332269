"""Which objects of a batch are there now, with their tags: a range listing where it is cheap, else single looks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Stat
from lakewarden.storage.objects import ObjectStore

PAGE = 1000
_LOOKS_A_PAGE = 12


def look(store: ObjectStore, keys: Sequence[str]) -> list[Stat | Exception | None]:
    """Each key's state, in order. A listing call answers for up to 1,000 names, so dense batches use it."""
    found: dict[str, Stat | Exception | None] = {}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for key in keys:
        groups[key.rpartition("/")[0]].append(key)
    single: list[str] = []
    for directory, members in groups.items():
        if len(members) < _LOOKS_A_PAGE or not directory:
            single.extend(members)
            continue
        listed = _listed(store, directory, sorted(members))
        found.update(listed)
        single.extend(key for key in members if key not in listed)
    found.update(zip(single, store.head_many(single), strict=True))
    return [found[key] for key in keys]


def _listed(store: ObjectStore, directory: str, members: list[str]) -> dict[str, Stat | None]:
    """The members seen by listing from the first to the last; the unseen (absent, or past the budget) are left out."""
    wanted = set(members)
    seen: dict[str, Stat | None] = {}
    budget = PAGE * max(1, len(members) // _LOOKS_A_PAGE)
    start = len(f"{store.scheme}://{store.bucket}/")
    before = members[0][:-1]  # sorts before the first member, so that it is in the range
    try:
        for batch in store.list(directory, after=before, until=members[-1]):
            names = [key[start:] for key in batch["key"].to_pylist()]
            for i, key in enumerate(names):
                if key in wanted and batch["flag"][i].as_py() is None:
                    modified = batch["modified"][i].as_py()
                    seen[key] = Stat(key, batch["size"][i].as_py(), modified, batch["etag"][i].as_py())
            budget -= len(names)
            if budget <= 0:
                break
    except (StoreUnavailableError, FileNotFoundError):
        return {}  # an unlistable neighbour: look at each key by itself
    return seen
