"""From the bytes of many Avro files to Arrow rows, each file proven whole or refused.

Files of one schema are joined and decoded in one call: a decoder's set-up costs milliseconds, which a
fleet of small manifests would pay for every file. Row counts of the frames say which rows are whose.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewarden.foreign.avro_schema import read_schema
from lakewarden.model.errors import BoundsError, IncompleteManifestError, LakewardenError, StoreUnavailableError
from lakewarden.model.ports import Blobs, Part, Rows
from lakewarden.pipeline.read.avro.container import Container, merge, open_container
from lakewarden.storage.scratch import DECODED, DECODER_PREFIX, TO_DECODE

Columns = Callable[[Iterable[str]], Mapping[str, str]]

MERGE_BYTES = 64 << 20
WAITING_BYTES = 256 << 20  # unpacked, of files that are not decoded yet
BASE_SECONDS = 20.0
SECONDS_PER_MB = 2.0
# A file that makes the decoder hang costs all of its time. The next one after it gets a quarter, down to this; after so
# many in one call, the files that are still to be decoded one by one are refused unread.
LEAST_SECONDS = 5.0
STARTS = 3  # times as long as a small file may take, for a child that imports what it needs
MOST_HANGS = 12
BASE_MEMORY = 1 << 30  # bytes that the decoder may take for a file, on top of what it has
MEMORY_PER_BYTE = 32
SHARED_MEMORY = "/dev/shm"
MOST_DESCRIPTORS = 4096
ROOM = 1 << 30  # for a worker on every core; a container often has 64 MB


def decode_files(blobs: Blobs, columns: Columns) -> Rows:
    """The rows of all files, each file's row count, and the error of each file that is not whole.

    A file with an error has no rows in the result: a part of a file is never given out.
    """
    errors: dict[int, Exception] = {}
    doubts: dict[int, str] = {}
    counts: NDArray[np.int64] = np.zeros(len(blobs), np.int64)
    groups: dict[bytes, list[tuple[int, Container]]] = {}
    container: Container | None = None
    decoded: list[Part] = []
    waiting = 0
    for index, blob in enumerate(blobs):
        try:
            if isinstance(blob, Exception):
                raise blob
            container = open_container(blob, container)
            counts[index] = container.rows
            groups.setdefault(container.schema, []).append((index, container))
            waiting += len(container.body)
            if container.doubt:
                doubts[index] = container.doubt
        except (IncompleteManifestError, BoundsError, StoreUnavailableError, OSError) as error:
            errors[index] = error
        if waiting > WAITING_BYTES:
            decoded += _decode_groups(groups, columns, errors)
            groups, waiting = {}, 0
    decoded += _decode_groups(groups, columns, errors)
    return Rows(decoded, counts, errors, doubts)


def _decode_groups(
    groups: Mapping[bytes, list[tuple[int, Container]]], columns: Columns, errors: dict[int, Exception]
) -> Iterator[Part]:
    for schema, members in groups.items():
        for chunk in _chunks(members):
            yield from _decode_chunk(schema, chunk, columns, errors)


def _chunks(members: list[tuple[int, Container]]) -> Iterable[list[tuple[int, Container]]]:
    chunk: list[tuple[int, Container]] = []
    size = 0
    for member in members:
        if chunk and size + len(member[1].body) > MERGE_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(member)
        size += len(member[1].body)
    if chunk:
        yield chunk


def _decode_chunk(
    schema: bytes, members: list[tuple[int, Container]], columns: Columns, errors: dict[int, Exception]
) -> list[Part]:
    """Decode together; where that fails, one by one, so that only the damaged file is refused."""
    if len(members) == 1 and sum(isinstance(error, DecoderHungError) for error in errors.values()) >= MOST_HANGS:
        errors[members[0][0]] = IncompleteManifestError(
            f"was not read, because {MOST_HANGS} files beside it never ended"
        )
        return []
    try:
        table = _decoder().decode([container for _, container in members], _wanted(schema, columns))
        expected = sum(container.rows for _, container in members)
        if table.num_rows != expected:
            raise IncompleteManifestError(f"decoded {table.num_rows} rows of {expected}")
    except IncompleteManifestError as error:
        if len(members) == 1:
            errors[members[0][0]] = error
            return []
        return [one for member in members for one in _decode_chunk(schema, [member], columns, errors)]
    owner = np.repeat([index for index, _ in members], [container.rows for _, container in members])
    return [Part(table, owner)]


def _wanted(schema: bytes, columns: Columns) -> Mapping[str, str]:
    try:
        return columns(field_names(schema))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, LakewardenError) as error:
        raise IncompleteManifestError(f"a schema that cannot be read ({error})") from error


@lru_cache(maxsize=4096)
def field_names(schema: bytes) -> tuple[str, ...]:
    """The dotted names of a record schema's fields, nested records included."""
    return tuple(_names(read_schema(schema), ""))


def _names(schema: Any, prefix: str) -> Iterable[str]:
    for option in schema if isinstance(schema, list) else [schema]:
        if isinstance(option, dict) and isinstance(option.get("type"), dict | list):
            yield from _names(option["type"], prefix)
        if isinstance(option, dict) and option.get("type") == "record":
            for field in option["fields"]:
                yield prefix + field["name"]
                yield from _names(field["type"], f"{prefix}{field['name']}.")


class DecoderHungError(IncompleteManifestError):
    """The decoder had to be ended: it was still at it when its time was up."""


@dataclass(frozen=True, slots=True)
class Forked:
    """A child that was forked, with what is used of a `Popen`.

    Not a `multiprocessing.Process`: that one is joined or terminated when its parent ends, while this child outlives a
    Spark worker that ends without any cleaning up, and removes what both left; and a decoder that is started anew and
    one that is forked answer the same lines.
    """

    pid: int
    stdin: TextIO
    stdout: TextIO

    @staticmethod
    def start(scratch: str) -> Forked:
        asked, ask = os.pipe()
        answer, answered = os.pipe()
        if pid := os.fork():
            os.close(asked)
            os.close(answered)
            return Forked(pid, open(ask, "w"), open(answer))
        try:
            os.setpgid(0, 0)
            for descriptor, place in ((asked, 0), (answered, 1), (os.open(os.devnull, os.O_WRONLY), 2)):
                os.dup2(descriptor, place)
            # Nothing of the parent's is held open: its sockets end when it does.
            os.closerange(3, MOST_DESCRIPTORS)
            from lakewarden.pipeline.read.avro.child import serve

            with open(0) as requests, open(1, "w") as answers:
                serve(requests, answers, scratch)
        finally:
            os._exit(0)

    def poll(self) -> int | None:
        try:
            done, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return 0
        return status if done else None

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        for pipe in (self.stdin, self.stdout):
            with suppress(OSError):
                pipe.close()


class Decoder:
    """The killable child and its scratch directory; one per worker process."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(
            prefix=DECODER_PREFIX, dir=SHARED_MEMORY if _roomy(SHARED_MEMORY) else None
        )
        self._child: subprocess.Popen[str] | Forked | None = None
        self._patience = 1.0
        self._ready: subprocess.Popen[str] | Forked | None = None  # the child that said so

    def decode(self, containers: Sequence[Container], columns: Mapping[str, str]) -> pa.Table:
        """The rows of files of one schema. Raises IncompleteManifestError on damage or when time runs out."""
        with open(os.path.join(self._scratch.name, TO_DECODE), "wb") as file:
            file.writelines(merge(containers))
            size = file.tell()
        full = BASE_SECONDS + SECONDS_PER_MB * size / (1 << 20)
        seconds = min(full, max(LEAST_SECONDS, full * self._patience))
        answer = self._ask(columns, seconds, BASE_MEMORY + MEMORY_PER_BYTE * size)
        if "trouble" in answer:
            raise StoreUnavailableError(f"{self._scratch.name} cannot hold what was decoded ({answer['trouble']})")
        if "error" in answer:
            raise IncompleteManifestError(f"the decoder refused it ({answer['error']})")
        # Mapped, not copied: the next answer is another file under this name.
        with pa.memory_map(os.path.join(self._scratch.name, DECODED)) as file:
            return pa.ipc.open_file(file).read_all()

    def _ask(self, columns: Mapping[str, str], seconds: float, memory: int) -> dict[str, Any]:
        """The child's answer. One that ended may have been killed for its memory, so the next one is asked once more."""
        request = json.dumps({"columns": dict(columns), "seconds": seconds, "memory": memory})
        line: str | None = None
        for _ in range(2):
            child = self._running()
            if self._ready is not child:
                line = _line(child, STARTS * BASE_SECONDS)
                self._ready = child if line else None
            if self._ready is child:
                line = _answered(child, request, seconds)
            if line:
                self._patience = 1.0
                answer: dict[str, Any] = json.loads(line)
                return answer
            self.close()
            self.start()  # the directory is the child's to remove, so it is never without one
            if line is None and not isinstance(child, Forked):
                break
        if line is None:
            self._patience /= 4
            raise DecoderHungError(f"the decoder gave no answer in {seconds:.0f} s")
        raise IncompleteManifestError(f"the decoder ended twice at it, without an answer and within {memory >> 20} MB")

    def _running(self) -> subprocess.Popen[str] | Forked:
        if self._child is None or self._child.poll() is not None:
            command = [sys.executable, "-m", "lakewarden.pipeline.read.avro.child", self._scratch.name]
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                process_group=0,
            )
        return self._child

    def start(self) -> None:
        """Start the child ahead of the first file, so that its imports overlap the reading."""
        self._running()

    def fork(self) -> None:
        """Start the child as a copy of this process, which has it all imported and has no other thread yet."""
        self._child = Forked.start(self._scratch.name)

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def _answered(child: subprocess.Popen[str] | Forked, request: str, seconds: float) -> str | None:
    """The line that a child answers with: empty if it ended, None if it is still at it after so many seconds."""
    assert child.stdin is not None
    try:
        child.stdin.write(f"{request}\n")
        child.stdin.flush()
    except OSError:
        return ""
    return _line(child, seconds)


def _line(child: subprocess.Popen[str] | Forked, seconds: float) -> str | None:
    assert child.stdout is not None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            return child.stdout.readline() if selector.select(seconds) else None
    except OSError:
        return ""


def _roomy(directory: str) -> bool:
    try:
        return os.access(directory, os.W_OK) and shutil.disk_usage(directory).free >= ROOM
    except OSError:
        return False


@lru_cache(maxsize=1)
def _decoder() -> Decoder:
    decoder = Decoder()
    atexit.register(decoder.close)
    return decoder


def fork_decoder() -> None:
    """Give a process that was just forked a decoder that is a copy of it, ready half a second sooner than a new one.

    That decoder, a fork too, has one already: its parent's.
    """
    if not _decoder.cache_info().currsize:
        _decoder().fork()


def warm_up() -> None:
    """Start this process's decoder."""
    _decoder().start()
