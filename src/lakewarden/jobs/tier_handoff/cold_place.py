"""What a table's directory in the cold place holds: its newest metadata, the location it was copied from, taken addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewarden.ledger.database import Ledger
from lakewarden.model.errors import ConfigError, UnsupportedTableError
from lakewarden.model.tiers import ELSEWHERE, Move, Relocator
from lakewarden.model.uri import FileUri, canonical
from lakewarden.storage.stores import Stores

HINT = "metadata/version-hint.text"
_VERSION = re.compile(r"^v(\d+)\.metadata\.json$")


@dataclass(frozen=True, slots=True)
class ColdMetadata:
    """One version of a cold table's metadata."""

    version: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ColdPlace:
    """A cold directory: the newest metadata, its snapshots, and the location whose paths its files keep for ever."""

    metadata: ColdMetadata | None
    snapshots: frozenset[int]
    location: str | None


def cold_place(stores: Stores, ledger: Ledger, relocator: Relocator, uuid: str, directory: str) -> ColdPlace:
    """What is there now. Raises LakewardenError, also where the directory is another table's.

    The directory itself is asked, not only the ledger: a ledger that was lost and begun anew knows nothing of it.
    """
    found = newest_metadata(stores, directory)
    origin, snapshots = relocator.described(found.data) if found is not None else ({}, frozenset())
    if found is not None and origin.get("table-uuid", uuid) != uuid:
        raise ConfigError(f"{directory} holds the copy of the table with the uuid {origin['table-uuid']}")
    return ColdPlace(found, snapshots, origin.get("location") or _copied_from(ledger, uuid, directory))


def newest_metadata(stores: Stores, directory: str) -> ColdMetadata | None:
    """The newest vN.metadata.json; the hint may be older, since it is written after."""
    version = _hinted(stores, directory)
    if version is None or stores.head(metadata_uri(directory, version)) is None:
        version = max((_version(file.key) for file in stores.entries(f"{directory}metadata/").files), default=0)
    if not version:
        return None
    while stores.head(metadata_uri(directory, version + 1)) is not None:
        version += 1
    return ColdMetadata(version, stores.get(metadata_uri(directory, version)))


def metadata_uri(directory: str, version: int) -> str:
    return f"{directory}metadata/v{version}.metadata.json"


def taken(ledger: Ledger, uuid: str, move: Move) -> dict[str, str]:
    """Addresses below the move's target at which a verified copy of another file lies, each with that file."""
    own = FileUri.parse(move.target).as_prefix()
    return {
        file.cold_uri: file.uri
        for page in ledger.cold.of(uuid)
        for file in page
        if file.cold_uri.startswith(own) and canonical(move(file.uri)) != file.cold_uri
    }


def address_taken(uri: str, target: str, holder: str) -> UnsupportedTableError:
    """Two files, one cold address: the snapshots that were handed over need the first one there."""
    return UnsupportedTableError(
        f"{uri} cannot be copied: {target}, where it would go, holds the copy of {holder}",
        hint="Give the table another tier_handoff.destination: what is in the cold place is never overwritten.",
    )


def _copied_from(ledger: Ledger, uuid: str, directory: str) -> str | None:
    """The location that the copies below a directory were made from, by the first one that keeps its path."""
    own = FileUri.parse(directory).as_prefix()
    for page in ledger.cold.of(uuid):
        for file in page:
            rest = file.cold_uri.removeprefix(own)
            if rest != file.cold_uri and not rest.startswith(ELSEWHERE) and file.uri.endswith(f"/{rest}"):
                return file.uri.removesuffix(rest)
    return None


def _hinted(stores: Stores, directory: str) -> int | None:
    try:
        text = stores.get(f"{directory}{HINT}").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def _version(name: str) -> int:
    found = _VERSION.match(name)
    return int(found.group(1)) if found else 0
