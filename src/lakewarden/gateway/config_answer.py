"""The configuration that a catalog hands to its clients, with the gateway's address in place of the catalog's own.

A client takes the `uri` that it is handed for the address of everything that follows, and would go around the gateway.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from lakewarden.foreign.json_text import read_object
from lakewarden.gateway.paths import SEPARATOR
from lakewarden.model.errors import LakewardenError, UpstreamLostError

MOST_BYTES = 4 << 20
URI = "uri"
_SEPARATOR_KEY = "namespace-separator"


def is_config(path: str) -> bool:
    return path.rstrip("/").endswith("/v1/config")


def through(body: bytes, upstream: str, gateway: str) -> tuple[bytes, str]:
    """The configuration as clients of the gateway get it, and what separates the parts of a namespace.

    Bytes stay as they are where no address of the catalog's is in them. Raises UpstreamLostError.
    """
    try:
        document = read_object(body, "the catalog's configuration", most_bytes=MOST_BYTES)
    except LakewardenError as error:
        raise UpstreamLostError(
            "the catalog's configuration cannot be read; the client would go around the gateway"
        ) from error
    sections = [one for one in (document.get("defaults"), document.get("overrides")) if isinstance(one, dict)]
    own = [upstream, *(str(one[URI]).rstrip("/") for one in sections if one.get(URI))]
    changed = [_rewrite(one, own, gateway) for one in sections]
    found = json.dumps(document).encode() if any(changed) else body
    said = (str(one[_SEPARATOR_KEY]) for one in reversed(sections) if one.get(_SEPARATOR_KEY))
    return found, unquote(next(said, SEPARATOR))


def moved(address: str, own: list[str], gateway: str) -> str:
    """An address, at the gateway if it is one of the catalog's own."""
    for base in own:
        if address == base or address.startswith((f"{base}/", f"{base}?")):
            return gateway + address[len(base) :]
    return address


def _rewrite(section: dict[str, Any], own: list[str], gateway: str) -> bool:
    """Whether any value named the catalog's own address."""
    before = dict(section)
    for name, value in before.items():
        if isinstance(value, str):
            # Whatever name the catalog has for itself, its clients are to come through here.
            section[name] = gateway + "/" * value.endswith("/") if name == URI and value else moved(value, own, gateway)
    return section != before
