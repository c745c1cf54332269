"""DeleteObjects with its body written and its answer read here: botocore takes ten times as long for a thousand keys.

The client still signs, sends and names errors. Where it does not let its body be written, only the first key is sent, and
the others are found unnamed and still there.
"""

from __future__ import annotations

import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from xml.sax.saxutils import escape

_XMLNS = "http://s3.amazonaws.com/doc/2006-03-01/"
_ANSWER = "DeleteResult"
_LISTS = {"Deleted": "Deleted", "Error": "Errors"}
_MARKER = "DeleteMarker"

_now = threading.local()


def body_of(objects: Iterable[tuple[str, str | None]]) -> bytes:
    """The request for these keys, each with the tag that it must have, every key to be named in the answer."""
    parts = [f'<?xml version="1.0" encoding="UTF-8"?><Delete xmlns="{_XMLNS}">']
    for key, etag in objects:
        tag = f"<ETag>{escape(etag)}</ETag>" if etag else ""
        parts.append(f"<Object><Key>{escape(key)}</Key>{tag}</Object>")
    parts.append("<Quiet>false</Quiet></Delete>")
    return "".join(parts).encode()


@contextmanager
def sending(body: bytes) -> Iterator[None]:
    """The next call of this thread through a client of `by_hand` has this body."""
    _now.body = body
    try:
        yield
    finally:
        _now.body = None


def by_hand(client: Any) -> Any:
    """The client, whose DeleteObjects is written and read here."""
    client.meta.events.register("before-call.s3.DeleteObjects", _write)
    client.meta.events.register("before-parse.s3.DeleteObjects", _read)
    return client


def _write(params: dict[str, Any], **_: Any) -> None:
    if (body := getattr(_now, "body", None)) is not None:
        params["body"] = body


def _read(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Read an answer that is one; any other is left to botocore, which says what is wrong with it."""
    if response_dict.get("status_code") != 200:
        return
    try:
        root = ET.fromstring(response_dict["body"])
    except ET.ParseError:
        return
    if _plain(root.tag) != _ANSWER:
        return
    for item in root:
        if (name := _LISTS.get(_plain(item.tag))) is not None:
            said: dict[str, Any] = {_plain(field.tag): field.text or "" for field in item}
            if _MARKER in said:
                said[_MARKER] = said[_MARKER].strip().lower() == "true"
            customized_response_dict.setdefault(name, []).append(said)
    response_dict["body"] = b""


def _plain(tag: str) -> str:
    return tag.rpartition("}")[2]
