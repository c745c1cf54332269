"""What a store can do, the same for local disk and object stores, and how its failures are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from lakewarden.model.errors import UNCHANGED, StoreUnavailableError
from lakewarden.model.ports import Stat

if TYPE_CHECKING:
    import pyarrow as pa

SYMLINK = "symlink"
MARKER = "marker"
DUPLICATE = "duplicate"
SPECIAL = "special"
UNLISTABLE = "unlistable: "

Children = tuple[list[str], bool]

_MESSAGE_LIMIT = 300
DISK = f"{UNCHANGED}Check that the disk is mounted and that this user may read and write there, then run the command again."


class Conflict(Exception):  # noqa: N818 - the word of the compare-and-swap protocol
    """The register holds something else than the caller saw. Nothing was written, as far as the store says."""


class Ambiguous(StoreUnavailableError):  # noqa: N818 - likewise
    """A conditional write failed in a way that leaves open whether it was applied: read back."""


class Store(Protocol):
    """One bucket, container or file system. Keys are as stored, without a leading slash."""

    scheme: str
    bucket: str

    def get(self, key: str) -> bytes:
        """The bytes. FileNotFoundError if absent, StoreUnavailableError for everything else."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes: ...

    def read_into(self, key: str, room: memoryview) -> int:
        """The first bytes, as many as there is room for, read into it: a large file costs less than in fresh memory. How many
        there were."""
        ...

    def get_many(self, keys: Sequence[str]) -> list[bytes | Exception]:
        """Each key's bytes, or what went wrong with it, in the order asked."""
        ...

    def head(self, key: str) -> Stat | None:
        """What the store says of one object; None if it is absent."""
        ...

    def head_many(self, keys: Sequence[str]) -> list[Stat | Exception | None]: ...

    def put(self, key: str, data: bytes) -> None:
        """Write or overwrite, whole or not at all."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """Write only if absent; False if something is there. Raises Ambiguous if it cannot be known."""
        ...

    def list(
        self, prefix_key: str, *, after: str | None = None, until: str | None = None, direct: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Every object under a directory as LISTING_SCHEMA, keys in (after, until]. Errors are raised."""
        ...

    def children(self, prefix_key: str) -> Children:
        """The directories directly below, each ending in a slash; True if there was more than one answer holds."""
        ...

    def first_after(self, prefix_key: str, after: str) -> str | None:
        """The first key under the directory that sorts after `after`; None if there is none."""
        ...

    def copy(self, src_key: str, dst_key: str) -> None:
        """Copy inside the store, overwriting."""
        ...

    def stream(self, key: str) -> Iterator[bytes]:
        """The bytes in pieces, for objects too large to hold."""
        ...

    def put_stream(self, key: str, pieces: Iterator[bytes]) -> None: ...

    def versioned(self) -> bool:
        """Whether a delete only hides the object behind a marker."""
        ...

    def exists_root(self) -> bool:
        """Whether the bucket or mount is there at all."""
        ...


def unavailable(error: BaseException, what: str) -> StoreUnavailableError:
    """The user's word for a store's failure: what was tried, and the first line of the store's answer.

    A disk's answer is the system's own words, without the number and the name that Python puts around them.
    """
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ConnectionError | TimeoutError):
        return StoreUnavailableError(f"{what} failed: {error.strerror}", hint=DISK)
    text = str(error).split("\n\nDebug source", 1)[0].strip().replace("\n", " ")[:_MESSAGE_LIMIT]
    return StoreUnavailableError(f"{what} failed: {text or type(error).__name__}")


def unsafe_key(key: str) -> str | None:
    """Why a key cannot be addressed exactly, or None. A store that rewrites a name would hit another object."""
    if not key or key.startswith("/") or key.endswith("/"):
        return "empty name, or a slash at its start or end"
    parts = key.split("/")
    if "" in parts or "." in parts or ".." in parts:
        return "an empty, '.' or '..' segment"
    return bad_name(key)


def bad_name(name: str) -> str | None:
    """Why a name cannot be carried through a listing, or None."""
    if name.isprintable():
        return None
    for char in name:
        code = ord(char)
        if code < 0x20 or 0x7F <= code < 0xA0:
            return "control character in a name"
        if 0xD800 <= code < 0xE000:
            return "name is not UTF-8"
    return None


def shown(name: str) -> str:
    """A name that cannot be carried, escaped so that it can be shown."""
    escaped = name.encode("utf-8", "backslashreplace").decode()
    return "".join(c if bad_name(c) is None else f"\\x{ord(c):02x}" for c in escaped)
