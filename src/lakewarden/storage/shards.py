"""Cutting a root into shards that cover it exactly once, with as few calls as its shape allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Shard
from lakewarden.model.uri import FileUri
from lakewarden.storage.store import Store, bad_name, unsafe_key
from lakewarden.storage.stores import Stores

CALLS_A_SHARD = 4
_ONE_ZONE = "--x-s3"
_PAD = "~"  # sorts after the slash: `name~` lies behind everything in `name/`


def discover_shards(stores: Stores, root_id: int, prefix: str, target: int) -> list[Shard]:
    """About `target` shards that cover the root exactly once; `target=1` asks the store nothing.

    A root that cannot be looked into is one shard: its listing says why, and refuses this root alone.
    """
    place = FileUri.parse(FileUri.parse(prefix).as_prefix())
    whole = Shard(root_id, str(place))
    if target <= 1 or place.bucket.endswith(_ONE_ZONE):  # one-zone buckets list in no order: no ranges
        return [whole]
    try:
        store = stores.at(whole.prefix)
        if place.scheme == "file":
            return _ranges(whole, _thin(_directories(store, place.key, target), target - 1))
        return [
            Shard(root_id, f"{place.store}/{part.prefix}", part.direct, part.after, part.until)
            for part in _parts(store, place.key, target)
        ]
    except StoreUnavailableError:
        return [whole]


def _directories(store: Store, base: str, target: int) -> list[str]:
    """Directories of a local root, breadth first, as boundaries: our own walk filters by plain key order."""
    pending, found = deque([base]), set[str]()
    calls = target * CALLS_A_SHARD
    while pending and calls > 0 and len(found) < target * CALLS_A_SHARD:
        calls -= 1
        children = [child for child in store.children(pending.popleft())[0] if bad_name(child) is None]
        found.update(children)
        pending.extend(children)
    return sorted(found)


def _parts(store: Store, base: str, target: int) -> list[Shard]:
    """Shards of an object store, prefixes without their store: sub-directories, and ranges of the very wide ones."""
    pending, done = deque([base]), list[Shard]()
    calls = target * CALLS_A_SHARD
    while pending and calls > 0 and len(done) + len(pending) < target:
        calls -= 1
        directory = pending.popleft()
        children, truncated = store.children(directory)
        if any(unsafe_key(child[:-1]) for child in children):
            done.append(Shard(0, directory))  # a name the lister cannot carry: listing it whole says so
        elif truncated or len(children) > 2 * target:
            names = _spread(store, directory, target * CALLS_A_SHARD) if truncated else [c[:-1] for c in children]
            done.extend(_ranges(Shard(0, directory), _boundaries(store, directory, names, children, target - 1)))
        elif children:
            done.append(Shard(0, directory, direct=True))
            pending.extend(children)
        else:
            done.append(Shard(0, directory))
    return done + [Shard(0, directory) for directory in pending]


def _ranges(whole: Shard, bounds: Sequence[str]) -> list[Shard]:
    """Consecutive (after, until]: every key falls into exactly one."""
    edges: list[str | None] = [None, *bounds, None]
    return [Shard(whole.root_id, whole.prefix, False, edges[i], edges[i + 1]) for i in range(len(edges) - 1)]


def _boundaries(store: Store, directory: str, names: Iterable[str], children: Sequence[str], count: int) -> list[str]:
    """Boundaries on whose two sides every server agrees.

    Some S3 servers list directory by directory: all of `a/` before `a-b`, where plain key order has it
    behind. A boundary is used only if no directory's name is a shorter piece of it that ends before
    such a character, and none is the boundary itself.
    """
    known: dict[str, bool] = dict.fromkeys(children, True)

    def is_directory(prefix: str) -> bool:
        if prefix not in known:
            known[prefix] = store.first_after(prefix, prefix) is not None
        return known[prefix]

    def agreed(bound: str) -> bool:
        name = bound[len(directory) :]
        pieces = [name[:i] for i in range(1, len(name)) if name[i] < "/"] + [name]
        # A piece such as `.` cannot be asked about, so nobody knows which side it is on.
        return not any(unsafe_key(directory + piece) or is_directory(f"{directory}{piece}/") for piece in pieces)

    candidates = _thin(sorted({name + _PAD for name in names}), count)
    return [bound for bound in candidates if agreed(bound)]


def _spread(store: Store, directory: str, wanted: int) -> list[str]:
    """Names spread over a flat directory: the first key of each next distinct character, level by level."""
    found: list[str] = []
    calls, level = wanted * 2, deque([directory])
    while level and len(found) < wanted and calls > 0:
        stem = level.popleft()
        firsts = [key for key in _branches(store, directory, stem, calls) if unsafe_key(key) is None]
        calls -= len(firsts) + 1
        level.extend(key[: len(stem) + 1] for key in firsts)
        if len(firsts) > 1:  # a stem that only goes on does not divide anything
            found.extend(key[: len(stem) + 1] for key in firsts)
    return [name for name in found if unsafe_key(name + _PAD) is None]


def _branches(store: Store, directory: str, stem: str, calls: int) -> list[str]:
    firsts: list[str] = []
    cursor = stem
    while calls > len(firsts):
        key = store.first_after(directory, cursor)
        if key is None or not key.startswith(stem) or len(key) <= len(stem) or key <= cursor:
            break
        firsts.append(key)
        following = ord(key[len(stem)]) + 1
        if following > 0x10FFFF or 0xD800 <= following < 0xE000:
            break
        cursor = stem + chr(following)
    return firsts


def _thin(samples: Sequence[str], count: int) -> list[str]:
    """At most `count` of them, evenly spaced."""
    if len(samples) <= count:
        return list(samples)
    step = len(samples) / (count + 1)
    return [samples[int(step * (i + 1))] for i in range(count)]
