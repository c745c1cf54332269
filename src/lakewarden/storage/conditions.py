"""Whether a store keeps its conditions: a lease is worth nothing where a create-only write overwrites."""

from __future__ import annotations

import secrets

from lakewarden.model.errors import NoConditionsError, StoreUnavailableError
from lakewarden.model.uri import FileUri
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.store import Ambiguous, Conflict
from lakewarden.storage.stores import Stores

PROBE = "conditions.probe"
_TRIES = 3


def prove_conditions(stores: Stores, uri: str) -> None:
    """Raise NoConditionsError unless the store of this address refuses what a condition forbids. Asked once a store.

    A local disk creates by hard link, which needs no proof. The probe lies beside the address, and is written over
    each time: two workers that ask at once do not disturb each other, for either's write makes the other's tag stale.
    """
    store = stores.at(uri)
    if isinstance(store, ObjectStore):
        prove(store, f"{FileUri.parse(uri).key.rpartition('/')[0]}/{PROBE}".lstrip("/"))


def prove(store: ObjectStore, probe: str) -> None:
    """The same for a store that is open, with the key of the probe."""
    if store.keeps_conditions:
        return
    store.put(probe, _nonce())
    seen = store.read_tagged(probe)
    if seen is None:
        raise StoreUnavailableError(f"{store!r} does not show the probe {probe} that was written just now")
    store.put(probe, _nonce())
    for token, words in ((None, "create-only (If-None-Match)"), (seen[1], "conditional (If-Match)")):
        if not _refused(store, probe, token):
            raise NoConditionsError(
                f"{store!r} ignored a condition: a {words} write over {probe} went through; no lease is trusted there, "
                "and nothing was changed but the probe"
            )
    store.keeps_conditions = True


def _refused(store: ObjectStore, probe: str, token: str | None) -> bool:
    """Whether a write that must fail does. An answer that leaves it open is asked for again."""
    for attempt in range(_TRIES):
        try:
            store.swap(probe, _nonce(), token)
        except Conflict:
            return True
        except Ambiguous:
            if attempt == _TRIES - 1:
                raise
        else:
            return False
    raise AssertionError("unreachable")


def _nonce() -> bytes:
    return secrets.token_hex(16).encode()
