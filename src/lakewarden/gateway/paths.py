"""Which requests may be commits, and to which table, by their path as it was sent.

Servers differ in what they make of odd paths: some resolve `..`, drop what follows a semicolon or merge slashes. A path
of which two readings differ is odd, and nothing that changes a table is let through on an odd path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from urllib.parse import quote, unquote_to_bytes

SEPARATOR = "\x1f"
# What every commit's path has in it, however it is spelled.
_MAY_COMMIT = re.compile(r"tables|transactions|register", re.IGNORECASE)
_ODD = re.compile(r"[;\\\x00]|//")
_BRANCH = re.compile(r"[@#]")


class Kind(Enum):
    """What a POST to a path is, to a catalog."""

    TABLE = auto()  # updates of one table
    TABLES = auto()  # updates of several tables at once
    REGISTER = auto()  # a table with a history of its own, in a namespace
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """A path, read. `base` is what goes before `/namespaces` or `/transactions`, as it was sent."""

    kind: Kind
    base: str = ""
    namespace: str = ""
    table: str = ""

    def may_be(self, names: Sequence[str], separator: str) -> bool:
        """Whether the path is a table's of these names. A gateway that has just started does not know the separator yet."""
        return names[-1] == self.table and any(
            one.join(names[:-1]) == self.namespace for one in (separator, SEPARATOR, ".")
        )


def place_of(path: str) -> Place:
    """What a path, as it was sent, names. Its tail decides: prefixes have any number of parts."""
    parts = path.split("/")
    plain = [_decoded(part) for part in parts]
    if len(parts) >= 5 and plain[-4] == "namespaces" and plain[-2] == "tables":
        return Place(Kind.TABLE, "/".join(parts[:-4]), _name(parts[-3]), _name(parts[-1]))
    if plain[-2:] == ["transactions", "commit"]:
        return Place(Kind.TABLES, "/".join(parts[:-2]))
    if len(parts) >= 4 and plain[-3] == "namespaces" and plain[-1] == "register":
        return Place(Kind.REGISTER, "/".join(parts[:-3]), _name(parts[-2]))
    return Place(Kind.OTHER)


def may_commit(path: str) -> bool:
    """Whether any reading of a path makes a commit of it: such a request's body is looked at before it goes on."""
    return bool(_MAY_COMMIT.search(_decoded(_decoded(path))))


def moves_tables(method: str, path: str) -> bool:
    """Whether a request, though no commit, may make another table of a name: create, register, rename and drop."""
    tail = _decoded(path).rpartition("/")[2]
    return tail in ("tables", "register", "rename") if method != "DELETE" else may_commit(path)


def climbs(path: str) -> bool:
    """Whether a server may go up by a path: out of the catalog, to whatever else it serves (`/../api`)."""
    whole = _decoded(_decoded(path)).replace("\\", "/")
    return any(part.partition(";")[0] in (".", "..") for part in whole.split("/"))


def is_odd(path: str) -> bool:
    """Whether servers may differ in what the path names."""
    whole = _decoded(path)
    if not path.startswith("/") or "#" in path or _ODD.search(whole) or _decoded(whole) != whole or not _is_text(whole):
        return True
    if any(part in ("", ".", "..") for part in whole.split("/")[1:]):
        return True
    # A name may hold a slash, but not one that makes another table of the path for a server that decodes it first.
    decoded = place_of(whole)
    return decoded.kind is not Kind.OTHER and decoded != replace(place_of(path), base=decoded.base)


def table_path(base: str, namespace: Sequence[str], table: str, separator: str) -> str:
    """Where a catalog serves a table, under the base of a request."""
    return f"{base}/namespaces/{quote(separator.join(namespace), safe='')}/tables/{quote(table, safe='')}"


def without_branch(table: str) -> str:
    """A table's name where `table@branch` and `table#hash` are the table too, as Nessie has it."""
    return _BRANCH.split(table, maxsplit=1)[0].strip("`") or table


def names_in(namespace: str, separator: str) -> list[str]:
    """The parts of a namespace, decoded already."""
    return namespace.split(SEPARATOR if SEPARATOR in namespace else separator)


def _name(part: str) -> str:
    # Clients and servers write names as forms do: a space is a plus, and a plus is encoded.
    return _decoded(part.replace("+", " "))


def _is_text(text: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in text)


def _decoded(text: str) -> str:
    # What is no UTF-8 stays apart from everything that is.
    return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
