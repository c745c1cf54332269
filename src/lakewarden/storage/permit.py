"""Leave to delete the files of one batch: who may, which files, under which roots, and until when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import NoReturn

from lakewarden.model.clock import Clock
from lakewarden.model.errors import StaleValidationError
from lakewarden.model.margins import MARGINS
from lakewarden.model.uri import FileUri, within
from lakewarden.storage.store import Store, unsafe_key
from lakewarden.storage.stores import Stores

_TOKEN = object()


@dataclass(frozen=True, slots=True)
class DeletePermit:
    """Leave to delete these files, now. Only `grant` can make one."""

    plan_id: str
    run_id: str
    roots: tuple[str, ...]
    uris: frozenset[str] = field(repr=False)
    validated_at: float
    check_lease: Callable[[], None] = field(repr=False)
    token: InitVar[object]

    def __post_init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise TypeError("a DeletePermit is made by grant() alone")


def grant(
    *,
    plan_id: str,
    run_id: str,
    roots: Iterable[str],
    uris: Iterable[str],
    validated_at: float,
    check_lease: Callable[[], None],
) -> DeletePermit:
    """A permit for one batch. `validated_at` is `clock.boot()` as read *before* the validation began."""
    prefixes = tuple(FileUri.parse(root).as_prefix() for root in roots)
    tops = [prefix for prefix in prefixes if not FileUri.parse(prefix).key]
    if not plan_id or not run_id or not prefixes or tops:
        raise ValueError(f"a permit needs a plan, a run and roots below a bucket's or disk's top (got {prefixes})")
    return DeletePermit(plan_id, run_id, prefixes, frozenset(uris), validated_at, check_lease, token=_TOKEN)


class Validity:
    """How long a permit still holds, by the boot clock. Asked before every single removal: it costs nanoseconds.

    A process that is stopped in the middle of a batch, or a machine that sleeps, must not go on deleting when it wakes:
    a table may have taken in the next file meanwhile.
    """

    def __init__(self, permit: DeletePermit, clock: Clock) -> None:
        self._permit = permit
        self._boot = clock.boot
        self._from = permit.validated_at
        self._until = permit.validated_at + MARGINS.validation_seconds

    def check(self) -> None:
        """Raise StaleValidationError unless the permit holds now. Asks nobody."""
        now = self._boot()
        if not self._from <= now <= self._until:
            raise self._stale(now)

    def check_all(self) -> None:
        """The same, and LeaseLostError unless the leases are held."""
        self.check()
        self._permit.check_lease()

    def request_seconds(self, limits: Sequence[float], connecting: float) -> float:
        """The longest of these time limits with which a request that begins now ends within the permit.

        Raises StaleValidationError if none is short enough, LeaseLostError if the lease is lost.
        """
        self.check_all()
        now = self._boot()
        fitting = [limit for limit in limits if now + connecting + limit <= self._until]
        if not fitting:
            raise self._stale(now)
        return max(fitting)

    def _stale(self, now: float) -> StaleValidationError:
        return StaleValidationError(
            f"the batch of run {self._permit.run_id} was validated {now - self._from:.0f} s ago "
            f"(limit {MARGINS.validation_seconds:.0f} s, in which a request has to end); it was not deleted"
        )


def covered(permit: DeletePermit, stores: Stores, uris: Sequence[str]) -> dict[Store, list[int]]:
    """Where each file lies, by its place in the batch.

    A file outside the permit is a fault of the caller: the whole batch is refused, loudly.
    """
    directories: dict[str, list[int]] = {}
    found: dict[Store, list[int]] = {}
    root = permit.roots[0]
    plain = "".join(uris).isprintable()
    if not permit.uris.issuperset(uris):
        _refuse(permit, next(uri for uri in uris if uri not in permit.uris), "not a file of this batch")
    for place, uri in enumerate(uris):
        # A directory of a local disk ends in a slash: it goes only if it is empty. Elsewhere the name is refused.
        directory, _, name = uri.rpartition("/")
        if not name and uri.startswith("file://"):
            directory, _, name = directory.rpartition("/")
        places = directories.get(directory)
        if places is None:
            root = _covered_directory(permit, uri, f"{directory}/", root)
            places = directories[directory] = found.setdefault(stores.at(uri), [])
        if not (plain and name.strip(".")) and (reason := unsafe_key(name)) is not None:
            _refuse(permit, uri, reason)
        places.append(place)
    return found


def _covered_directory(permit: DeletePermit, uri: str, directory: str, likely: str) -> str:
    """The root that a directory lies in. Files come root by root, so that of the one before is asked first."""
    try:
        place = FileUri.parse(directory)
    except ValueError as error:
        _refuse(permit, uri, str(error))
    if str(place) != directory or unsafe_key(place.key.removesuffix("/")) is not None:
        _refuse(permit, uri, "not a canonical address")
    for root in (likely, *permit.roots):
        if within(directory, root):
            return root
    _refuse(permit, uri, "outside the roots of this plan")


def _refuse(permit: DeletePermit, uri: str, reason: str) -> NoReturn:
    raise PermissionError(f"{uri!r} may not be deleted under plan {permit.plan_id}: {reason}; nothing was deleted")
