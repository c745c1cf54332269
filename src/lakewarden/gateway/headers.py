"""Which header fields go on from one side of the gateway to the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Fields = Sequence[tuple[bytes, bytes]]

# Of one connection and not of the message (RFC 9110, 7.6.1). The gateway answers `Expect` itself.
_HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
})  # fmt: skip
_NOT_SENT = frozenset({b"host", b"expect"})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]*)", re.IGNORECASE)
_OVERRIDES = frozenset({b"x-http-method-override", b"x-http-method", b"x-method-override"})


def passed_on(fields: Fields, *, without: Iterable[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """The fields of a message, in their order, less those of its connection and those `without`."""
    named = {one.strip().lower() for value in values(fields, b"connection") for one in value.split(b",")}
    # A client must not make the gateway drop what names its user or frames its body.
    left_out = _HOP_BY_HOP | (named - {b"authorization", b"content-length", b"content-encoding"}) | frozenset(without)
    return [(name, value) for name, value in fields if name.lower() not in left_out]


def sent_on(fields: Fields, host: bytes, *, without: Iterable[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """The fields of a request as the catalog gets them."""
    return [(b"Host", host), *passed_on(fields, without=[*_NOT_SENT, *without])]


def values(fields: Fields, name: bytes) -> list[bytes]:
    return [value for one, value in fields if one.lower() == name]


def one_value(fields: Fields, name: bytes) -> str:
    """The values of a field, joined as if they were one."""
    return b", ".join(values(fields, name)).decode("latin-1")


def other_letters(fields: Fields) -> bool:
    """Whether a field asks the server to read the body in other letters than UTF-8, where its quotes may be elsewhere."""
    kind = one_value(fields, b"content-type")
    said = _CHARSET.findall(kind)
    return len(said) != kind.lower().count("charset") or any(one.lower() not in ("utf-8", "utf8") for one in said)


def is_framed_twice(fields: Fields) -> bool:
    """Whether a message has a length and chunks: servers differ in which of them they believe (RFC 9112, 6.3)."""
    return bool(values(fields, b"content-length") and values(fields, b"transfer-encoding"))


def overrides_method(fields: Fields, method: str) -> bool:
    """Whether a field asks the server to take the request for one of another method."""
    return any(name.lower() in _OVERRIDES and value.decode("latin-1").upper() != method for name, value in fields)
