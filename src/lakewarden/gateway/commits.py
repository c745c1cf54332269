"""What a commit would bring into a table: its new snapshots' summaries, and what it does to the table's properties."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lakewarden.foreign.json_text import read_object
from lakewarden.foreign.unpack import GZIP_MAGIC
from lakewarden.model.errors import BoundsError, GatewayRequestError, UnreadableMetadataError

IDENTITY = frozenset({"", "identity"})
_WINDOW = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
# A body of 64 MiB that is all snapshots has about two million values.
MOST_VALUES = 8_000_000
UPDATES, TABLES = "updates", "table-changes"
# The names by which a body is judged.
_NAMES = frozenset({
    UPDATES, TABLES, "requirements", "identifier", "namespace", "name", "action", "type", "snapshot", "summary", "updated",
    "removals", "removed", "metadata-location", "overwrite",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """What a request does to one table. `names` are its namespace and name where the body says them.

    `creates`: the catalog makes the change only if there is no such table. `replaces`: by a history of its own.
    """

    names: tuple[str, ...] | None
    summaries: tuple[Mapping[str, str], ...] = ()
    set_properties: Mapping[str, str] = field(default_factory=dict)
    removed_properties: tuple[str, ...] = ()
    creates: bool = False
    replaces: bool = False

    @property
    def is_judged(self) -> bool:
        return bool(self.summaries) or self.replaces

    @property
    def changes_rules(self) -> bool:
        return any(name.startswith("lineage.") for name in (*self.set_properties, *self.removed_properties))

    def properties_after(self, before: Mapping[str, str]) -> dict[str, str]:
        """The table's properties once the change is made."""
        left = {name: value for name, value in before.items() if name not in self.removed_properties}
        return {**left, **self.set_properties}


def changes_in(body: bytes, encoding: str, most_bytes: int, *, of_tables: bool = False) -> list[Change]:
    """Every change of a commit's body; none where it has no updates. Raises GatewayRequestError if it cannot be judged.

    `of_tables`: the path says that they are tables' updates, and not the properties of a namespace.
    """
    try:
        plain = _unpacked(body, encoding.strip().lower(), most_bytes)
        if plain.startswith(GZIP_MAGIC):
            raise ValueError("it is packed, and does not say so")
        document = _named(read_object(plain, "the body", most_bytes=most_bytes, most_values=MOST_VALUES))
        if of_tables and (wrong := [name for name in (UPDATES, TABLES) if _is_no_list(document.get(name))]):
            raise TypeError(f"{wrong[0]} is not a list")
        return list(_changes(document))
    except BoundsError as error:
        raise GatewayRequestError(
            f"the commit is beyond what is judged ({_why(error)}); it was not passed on"
        ) from error
    except (UnreadableMetadataError, zlib.error, TypeError, ValueError) as error:
        raise GatewayRequestError(f"the commit cannot be read ({_why(error)}); it was not passed on") from error


def _why(error: Exception) -> str:
    return str(getattr(error, "message", error)).removesuffix("; nothing was touched")


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    if encoding in IDENTITY:
        return body
    if encoding not in _WINDOW:
        raise GatewayRequestError(
            f"the commit's encoding {encoding!r} is none of gzip and deflate; it was not passed on"
        )
    unpack = zlib.decompressobj(_WINDOW[encoding])
    found = unpack.decompress(body, most + 1)
    if len(found) > most or unpack.unconsumed_tail:
        raise GatewayRequestError(f"the commit has more than {most:,} bytes unpacked; it was not passed on")
    if not unpack.eof or unpack.unused_data:
        raise GatewayRequestError("the commit's packed body is not whole; it was not passed on")
    return found


def _changes(document: Mapping[str, Any]) -> Iterator[Change]:
    # A body may have both: each is judged, whichever of them its path makes the server read. What is no list is no
    # commit's: the properties of a namespace are changed by `updates` too.
    if isinstance(document.get(UPDATES), list):
        yield _change(document, None)
    if isinstance(document.get(TABLES), list):
        for one in _listed(document[TABLES], TABLES):
            yield _change(one, _names(one.get("identifier")))
    # Servers differ in what they take for true.
    if "metadata-location" in document and document.get("overwrite") not in (None, False):
        yield Change((str(document.get("name", "")),), creates=True, replaces=True)


def _change(document: Mapping[str, Any], names: tuple[str, ...] | None) -> Change:
    summaries: list[Mapping[str, str]] = []
    given: dict[str, str] = {}
    removed: list[str] = []
    for update in _listed(document.get(UPDATES) or [], UPDATES):
        # Servers read an action's name whatever its case, and some whatever joins its words.
        match _loosely(_text(update, "action")):
            case "addsnapshot":
                snapshot = _named(_object(update.get("snapshot"), "snapshot"))
                summaries.append(_texts(snapshot.get("summary") or {}, "summary"))
            case "setproperties":
                # Servers know the list by the name that the specification once had, too.
                for name in ("updates", "updated"):
                    given |= _texts(update.get(name) or {}, name)
            case "removeproperties":
                for name in ("removals", "removed"):
                    removed += [str(one) for one in update.get(name) or []]
    wanted = _listed(document.get("requirements") or [], "requirements")
    creates = any(_text(one, "type").lower() == "assert-create" for one in wanted)
    return Change(_names(document.get("identifier")) or names, tuple(summaries), given, tuple(removed), creates)


def _is_no_list(value: Any) -> bool:
    # Some servers take one thing for a list of one.
    return value is not None and not isinstance(value, list)


def _names(identifier: Any) -> tuple[str, ...] | None:
    if identifier is None:
        return None
    found = _named(_object(identifier, "identifier"))
    return (*(str(one) for one in found.get("namespace") or ()), str(found.get("name", "")))


def _listed(value: Any, name: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise TypeError(f"{name} is not a list")
    return [_named(_object(one, f"an entry of {name}")) for one in value]


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is not an object")
    return value


def _named(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object of the specification's. Some readers of JSON take `Updates` or `table_changes` for what others read past."""
    for name in value:
        if name not in _NAMES and (loosely := _loosely(name)) in _LOOSELY:
            raise ValueError(f"it has {name!r}, which some catalogs may read as {_LOOSELY[loosely]!r}")
    return value


@lru_cache(4096)
def _loosely(name: str) -> str:
    return name.strip().casefold().replace("-", "").replace("_", "")


_LOOSELY = {_loosely(name): name for name in sorted(_NAMES)}


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name, "")
    if not isinstance(found, str):
        raise TypeError(f"{name} is no text")
    return found


def _texts(value: Any, name: str) -> Mapping[str, str]:
    found = _object(value, name)
    if wrong := next((key for key, text in found.items() if not isinstance(text, str)), None):
        raise TypeError(f"{name} has {wrong!r}, which is no text")
    return found
