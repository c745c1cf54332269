"""Ways to damage a file: bytes that are lost, changed or another file's, and JSON whose values are not what they should be."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from lakewarden.model.avro_frames import SYNC_BYTES, blocks, header, long

Path = tuple[str | int, ...]

DROP, REPLACE, TWICE, DEEP, SWAP = "drop", "replace", "twice", "deep", "swap"
_TWICE, _DEEP = "@@twice@@", '"@@deep@@"'

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**400,
    1.5, -0.0, 1e308, float("inf"), float("nan"), "", "x", "0", "-1", "9" * 40, "..", "a/../b", "x" * 100_000,
    "\ud800", "a\0b", "\n", "é😀", [], {}, [None], [[]], {"": ""}, [1, "x", {}], {"snapshot-id": 1},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Damage:
    """What was done to a document, and where."""

    how: str
    path: Path = ()
    value: Any = None


def paths_in(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every value of a document, by its way from the top; the document itself is none of them."""
    if path:
        yield path
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from paths_in(member, (*path, key))


def at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


@st.composite
def damaged_documents(draw: st.DrawFn, document: dict[str, Any]) -> tuple[bytes, Damage]:
    """The document with one of its values damaged, as bytes; sometimes packed."""
    path = draw(st.sampled_from(sorted(paths_in(document), key=str)))
    how = draw(st.sampled_from([DROP, REPLACE, REPLACE, REPLACE, TWICE, DEEP, SWAP]))
    found = copy.deepcopy(document)
    outer, key = at(found, path[:-1]), path[-1]
    value = None
    if how == DROP:
        del outer[key]
    elif how == REPLACE:
        value = outer[key] = draw(st.sampled_from(VALUES))
    elif how == SWAP:
        value = outer[key] = copy.deepcopy(at(document, draw(st.sampled_from(sorted(paths_in(document), key=str)))))
    elif how == DEEP:
        outer[key] = json.loads(_DEEP)
    elif isinstance(outer, dict):
        outer[f"{key}{_TWICE}"] = draw(st.sampled_from([copy.deepcopy(outer[key]), None, [], 1]))
    else:
        outer.append(copy.deepcopy(outer[key]))
    depth = draw(st.sampled_from([150, 250, 5000]))
    text = json.dumps(found).replace(_TWICE, "").replace(_DEEP, "[" * depth + "]" * depth).encode()
    return (gzip.compress(text, 1) if draw(st.booleans()) else text), Damage(how, path, value)


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The file with some of its bytes lost, changed, doubled or another file's. Never the file itself."""
    start = draw(st.integers(0, max(0, len(data) - 1)))
    length = draw(st.integers(1, max(1, min(64, len(data) - start))))
    how = draw(st.sampled_from(["cut", "flip", "zero", "lose", "double", "insert", "other", "join", "pack", "bomb"]))
    match how:
        case "cut":
            found = data[:start]
        case "flip":
            found = (
                data[:start] + bytes([data[start] ^ (1 << draw(st.integers(0, 7)))]) + data[start + 1 :]
                if data
                else b"x"
            )
        case "zero":
            found = data[:start] + bytes(length) + data[start + length :]
        case "lose":
            found = data[:start] + data[start + length :]
        case "double":
            found = data[: start + length] + data[start:]
        case "insert":
            found = data[:start] + draw(st.binary(min_size=1, max_size=16)) + data[start:]
        case "other":
            found = draw(st.sampled_from([*others, b"", b"\0" * 100, b"{}", b"null", b"[]"]))
        case "join":
            found = data[:start] + draw(st.sampled_from([*others, data]))[start:]
        case "pack":
            found = gzip.compress(data, 1)[: draw(st.integers(1, 200))]
        case _:
            found = gzip.compress(b" " * (4 << 20), 9)
    return found if found != data else data + b"\0"


def frame_ends(data: bytes) -> list[int]:
    """Where the header of an Avro file ends, and each of its blocks."""
    _, start = header(data)
    ends = [start + SYNC_BYTES]
    for count, block in blocks(data, start):
        ends.append(ends[-1] + len(long(count)) + len(long(len(block))) + len(block) + SYNC_BYTES)
    return ends


@st.composite
def damaged_frames(draw: st.DrawFn, data: bytes) -> bytes:
    """An Avro file whose frames are damaged: whole blocks lost or doubled, counts and sizes that lie, another codec."""
    ends = frame_ends(data)
    how = draw(st.sampled_from(["drop block", "double block", "count", "size", "schema", "codec", "end"]))
    body = list(pairwise(ends))
    if not body or how == "end":
        return data[: ends[0]] if len(ends) > 1 else data + b"\0"
    start, end = draw(st.sampled_from(body))
    number = draw(st.sampled_from([0, 1, -1, 2, 63, 64, 10**6, 10**12, 2**62, -(2**62)]))
    meta, at_sync = header(data)
    count, block = next((c, b) for (s, _), (c, b) in zip(body, blocks(data, at_sync), strict=True) if s == start)
    behind = data[end - SYNC_BYTES : end]
    match how:
        case "drop block":
            return data[:start] + data[end:]
        case "double block":
            return data[:end] + data[start:]
        case "count":
            lied = number if number != count else number + 1
            return data[:start] + long(lied) + long(len(block)) + block + behind + data[end:]
        case "size":
            lied = number if number != len(block) else number + 1
            return data[:start] + long(count) + long(lied) + block + behind + data[end:]
        case "codec":
            names = [b"null", b"deflate", b"snappy", b"zstandard", b"bzip2", b"", b"\xff"]
            name = draw(st.sampled_from([name for name in names if name != meta.get(b"avro.codec")]))
            return _with_header(data, {**meta, b"avro.codec": name})
        case _:
            schema = draw(damaged_documents(json.loads(meta[b"avro.schema"])))[0]
            return _with_header(data, {**meta, b"avro.schema": schema})


def _with_header(data: bytes, meta: dict[bytes, bytes]) -> bytes:
    from lakewarden.model.avro_frames import headed

    return headed(meta, b"") + data[header(data)[1] :]
