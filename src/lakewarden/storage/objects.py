"""Object stores (S3, GCS, Azure, memory) through obstore; boto3 only for the calls it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
import tenacity
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, PreconditionError

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Stat
from lakewarden.storage.s3 import S3Calls
from lakewarden.storage.store import (
    Ambiguous,
    Children,
    Conflict,
    unavailable,
    unsafe_key,
)

if TYPE_CHECKING:
    import pyarrow as pa

CONCURRENCY = 16
LIST_CHUNK = 10_000
_FULL_PAGE = 1000  # names that S3 tells in one answer, at most
_ONE_COPY_LIMIT = 5 << 30
_CREATE_TRIES = 3
_PART = 16 << 20
T = TypeVar("T")

_transient = tenacity.retry(
    retry=tenacity.retry_if_exception_type(GenericError),
    stop=tenacity.stop_after_attempt(2),
    wait=tenacity.wait_random_exponential(multiplier=0.2, max=2),
    reraise=True,
)


class ObjectStore:
    """One bucket. `once` is the same bucket without retries, for writes that must not be repeated blindly."""

    def __init__(
        self,
        scheme: str,
        bucket: str,
        client: Any,
        once: Any | None = None,
        options: Mapping[str, str] | None = None,
        deleting: Callable[[float, float], Any] | None = None,
    ) -> None:
        self.scheme = scheme
        self.bucket = bucket
        self.client = client
        self._once = once or client
        self._deleting = deleting or (lambda _seconds, _connecting: client)
        self._deleters: dict[tuple[float, float], Any] = {}
        self.keeps_conditions = False  # until a probe has shown it
        self.s3 = S3Calls(bucket, options or {}) if scheme == "s3" else None

    def __repr__(self) -> str:
        return f"ObjectStore({self._address('')!r})"

    def sent_once(self, seconds: float, connecting: float) -> Any:
        """The same bucket for a delete: without retries, and each request ends within so many seconds."""
        limits = (seconds, connecting)
        if limits not in self._deleters:
            self._deleters[limits] = self._deleting(*limits)
        return self._deleters[limits]

    def get(self, key: str) -> bytes:
        return self._call(key, "reading", lambda: bytes(obstore.get(self.client, key).bytes()))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:
            return b""

        def read() -> bytes:
            return bytes(obstore.get_range(self.client, key, start=start, length=length))

        return self._call(key, "reading", read)

    def read_into(self, key: str, room: memoryview) -> int:
        found = self.get_range(key, 0, len(room))
        room[: len(found)] = found
        return len(found)

    def get_many(self, keys: Sequence[str]) -> list[bytes | Exception]:
        return _each(self.get, keys)

    def head(self, key: str) -> Stat | None:
        try:
            found = self._call(key, "looking at", lambda: obstore.head(self.client, key))
        except FileNotFoundError:
            return None
        return Stat(key, found["size"], found["last_modified"], found["e_tag"])

    def head_many(self, keys: Sequence[str]) -> list[Stat | Exception | None]:
        return _each(self.head, keys)

    def put(self, key: str, data: bytes) -> None:
        self._call(key, "writing", lambda: obstore.put(self.client, key, data))

    def put_stream(self, key: str, pieces: Iterator[bytes]) -> None:
        # The pieces are drawn here, not by obstore: one that comes from another store's call inside its
        # runtime would panic. A failure leaves an unfinished upload, never a short object.
        self._check(key)
        try:
            writer = obstore.open_writer(self.client, key, buffer_size=_PART)
            for piece in pieces:
                writer.write(piece)
            writer.close()
        except (BaseError, OSError) as error:
            raise unavailable(error, f"writing {self._address(key)}") from error

    def create(self, key: str, data: bytes) -> bool:
        """Create-only. A failed try is looked at before the next: our own late write must not read as another's."""
        self._check(key)
        unsure: Exception | None = None
        for _ in range(_CREATE_TRIES):
            try:
                obstore.put(self._once, key, data, mode="create")
                return True
            except AlreadyExistsError as error:
                held = self._peek(key)
                if held is None:
                    unsure = error  # a 409 that wrote nothing reads as "already exists"
                    continue
                if unsure is None or held != data:
                    return False
                raise Ambiguous(f"{self._address(key)} holds what we tried to create after a failed try") from error
            except (BaseError, OSError) as error:
                held = self._peek(key)
                if held == data:
                    raise Ambiguous(f"{self._address(key)} may have been created by us: {error}") from error
                if held is not None:
                    return False
                unsure = error
        assert unsure is not None
        raise Ambiguous(f"creating {self._address(key)} failed: {unavailable(unsure, 'the write').message}") from unsure

    def read_tagged(self, key: str) -> tuple[bytes, str] | None:
        """The bytes together with the tag that a swap needs; None if absent."""

        def read() -> tuple[bytes, str]:
            answer = obstore.get(self.client, key)
            return bytes(answer.bytes()), self._token(answer.meta)

        try:
            return self._call(key, "reading", read)
        except FileNotFoundError:
            return None

    def swap(self, key: str, data: bytes, tag: str | None) -> str:
        """Write if the object is still the one `tag` was given for (None: is absent). Conflict, or Ambiguous if it cannot be
        known."""
        self._check(key)
        try:
            return self._token(obstore.put(self._once, key, data, mode=self._condition(tag)))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
            raise Conflict(self._address(key)) from error
        except (BaseError, OSError) as error:
            text = unavailable(error, f"writing {self._address(key)}").message
            raise Ambiguous(f"{text}; it is not known whether it was written") from error

    def list(
        self,
        prefix_key: str,
        *,
        after: str | None = None,
        until: str | None = None,
        direct: bool = False,
        page: int = LIST_CHUNK,
    ) -> Iterator[pa.RecordBatch]:
        """As the protocol says. `page` is how many are asked for before the first are handed out."""
        from lakewarden.storage.listed_rows import listed_rows

        prefix = prefix_key.strip("/")
        try:
            for found in self._pages(prefix, after, direct, page):
                batch = listed_rows(found, self._address(""), f"{prefix}/" if prefix else "", after, until)
                if batch.num_rows:
                    yield batch
                if until is not None and found.num_rows and found["path"][-1].as_py() > until:
                    return
        except FileNotFoundError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise unavailable(error, f"listing {self._address(prefix)}") from error

    def children(self, prefix_key: str) -> Children:
        prefix = prefix_key.strip("/")
        if self.s3 is not None:
            return self.s3.children(f"{prefix}/" if prefix else "")
        try:
            answer = obstore.list_with_delimiter(self.client, prefix or None)
        except (BaseError, OSError, ValueError) as error:
            raise unavailable(error, f"listing {self._address(prefix)}") from error
        return [f"{path}/" for path in answer["common_prefixes"]], False

    def first_after(self, prefix_key: str, after: str) -> str | None:
        prefix = prefix_key.strip("/")
        if self.s3 is not None:
            return self.s3.first_after(f"{prefix}/" if prefix else "", after)
        start = len(self._address(""))
        for batch in self.list(prefix_key, after=after):
            return str(batch["key"][0].as_py()[start:])
        return None

    def copy(self, src_key: str, dst_key: str) -> None:
        self._check(dst_key)
        found = self.head(src_key)
        if found is None:
            raise FileNotFoundError(self._address(src_key))
        if self.s3 is not None and found.size >= _ONE_COPY_LIMIT:
            self.s3.copy_large(src_key, dst_key)
            return
        self._call(src_key, "copying", lambda: obstore.copy(self.client, src_key, dst_key))

    def stream(self, key: str) -> Iterator[bytes]:
        answer = self._call(key, "reading", lambda: obstore.get(self.client, key))
        try:
            for piece in answer.stream(min_chunk_size=8 << 20):
                yield bytes(piece)
        except (BaseError, OSError) as error:
            raise unavailable(error, f"reading {self._address(key)}") from error

    def versioned(self) -> bool:
        return bool(self.s3.versioning()) if self.s3 is not None else False

    def exists_root(self) -> bool:
        if self.s3 is not None:
            return self.s3.exists()
        try:
            next(iter(obstore.list(self.client, chunk_size=1)), None)
        except FileNotFoundError:
            return False
        except (BaseError, OSError, ValueError) as error:
            raise unavailable(error, f"looking for {self._address('')}") from error
        return True

    def _pages(self, prefix: str, after: str | None, direct: bool, page: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if direct:
            answer = obstore.list_with_delimiter(self.client, prefix or None, return_arrow=True)
            objects = pa.table(answer["objects"]).combine_chunks()
            names = objects["path"].to_pylist() + [f"{path}/" for path in answer["common_prefixes"]]
            self._check_ended(prefix, len(names), max(names, default=""))
            yield from objects.to_batches()
            return
        # The offset is a hint that saves pages: obstore may normalise it, so the rows are filtered as well.
        # One that names the directory itself makes some servers skip all of it, so such a hint is not given.
        inside = after is not None and len(after) > len(prefix) + 1 and after.startswith(f"{prefix}/")
        offset = after if inside and unsafe_key(after or "") is None else None
        count, last = 0, ""
        for found in obstore.list(self.client, prefix or None, offset=offset, chunk_size=page, return_arrow=True):
            batch = pa.record_batch(found)
            count += batch.num_rows
            last = str(batch["path"][-1].as_py()) if batch.num_rows else last
            yield batch
        self._check_ended(prefix, count, last)

    def _check_ended(self, prefix: str, count: int, last: str) -> None:
        """Raise StoreUnavailableError if a listing that ends with a full page is not at its end.

        obstore stops, without a word, at a page that says that there is more and not where.
        """
        if self.s3 is None or not count or count % _FULL_PAGE:
            return
        # Everything in a directory lies before its name with the last character there is.
        after = f"{last}\U0010ffff" if last.endswith("/") else last
        directory = f"{prefix}/" if prefix else ""
        more = self.s3.first_after(directory, after)
        if more == f"{last}/":  # the marker that was listed without its slash
            more = self.s3.first_after(directory, more)
        if more is not None:
            raise StoreUnavailableError(
                f"the listing of {self._address(prefix)} ended after {count} names, before {more}: it is not whole"
            )

    def _call(self, key: str, verb: str, call: Callable[[], T]) -> T:
        self._check(key)
        try:
            return _transient(call)()
        except FileNotFoundError as error:
            raise FileNotFoundError(f"no such object: {self._address(key)}") from error
        except (BaseError, OSError, ValueError, NotImplementedError) as error:
            raise unavailable(error, f"{verb} {self._address(key)}") from error

    def _token(self, meta: Any) -> str:
        """What a swap has to find: the tag, and on Google Cloud, which swaps by generation alone, the generation."""
        tag = meta["e_tag"] or ""
        return f"{tag}\n{meta['version'] or ''}" if self.scheme == "gs" else tag

    def _condition(self, token: str | None) -> Any:
        """The mode of a put. Azure takes no version that is None, so it is left out where there is none."""
        if token is None:
            return "create"
        tag, _, version = token.partition("\n")
        return {"e_tag": tag, "version": version} if version else {"e_tag": tag}

    def _peek(self, key: str) -> bytes | None:
        try:
            return self.get(key)
        except FileNotFoundError:
            return None
        except StoreUnavailableError as error:
            raise Ambiguous(f"{self._address(key)} cannot be read back: {error.message}") from error

    def _check(self, key: str) -> None:
        reason = unsafe_key(key)
        if reason is not None:
            raise StoreUnavailableError(f"the key {key!r} cannot be addressed exactly: {reason}")

    def _address(self, key: str) -> str:
        return f"{self.scheme}://{self.bucket}/{key}"


def _each(call: Callable[[str], Any], keys: Sequence[str]) -> list[Any]:
    def one(key: str) -> Any:
        try:
            return call(key)
        except (FileNotFoundError, StoreUnavailableError) as error:
            return error

    if len(keys) < 2:
        return [one(key) for key in keys]
    with ThreadPoolExecutor(min(CONCURRENCY, len(keys))) as pool:
        return list(pool.map(one, keys))
