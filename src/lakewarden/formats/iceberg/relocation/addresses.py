"""Manifest lists and manifests at a new place: every address changed, everything else as its writer left it.

Entries that inherit their sequence number, snapshot or first row from the list stay valid, because the list still says
the same of its manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakewarden.formats.avro import Record, rewrite_avro
from lakewarden.formats.iceberg.relocation.deletes import PATH_ID
from lakewarden.model.errors import EncryptedTableError, IncompleteManifestError
from lakewarden.model.tiers import Move
from lakewarden.model.uri import canonical

# Asked for the sizes of moved files by their old canonical addresses; those it does not know are left out.
Sizes = Callable[[Sequence[str]], Mapping[str, int]]


def relocate_manifest(data: bytes, uri: str, move: Move, sizes: Sizes) -> bytes:
    """The manifest with the new addresses of its files, and the sizes of the delete files that were written anew."""

    def change(entries: Sequence[Record]) -> None:
        deletes = [canonical(entry["data_file"]["file_path"]) for entry in entries if entry["data_file"].get("content")]
        known = sizes(deletes) if deletes else {}
        for entry in entries:
            _move_file(entry["data_file"], uri, move, known)

    return rewrite_avro(data, uri, change)


def relocate_list(data: bytes, uri: str, move: Move, sizes: Sizes) -> bytes:
    """The manifest list with the new addresses and lengths of its manifests."""

    def change(manifests: Sequence[Record]) -> None:
        known = sizes([canonical(manifest["manifest_path"]) for manifest in manifests])
        for manifest in manifests:
            if manifest.get("key_metadata"):
                raise EncryptedTableError(f"{uri} names an encrypted manifest; nothing of it was moved")
            old = canonical(manifest["manifest_path"])
            if old not in known:
                raise IncompleteManifestError(f"{uri} names {old}, which has no copy at the new place")
            manifest["manifest_path"] = move(old)
            manifest["manifest_length"] = known[old]

    return rewrite_avro(data, uri, change)


def _move_file(file: Record, uri: str, move: Move, sizes: Mapping[str, int]) -> None:
    if file.get("key_metadata"):
        raise EncryptedTableError(f"{uri} names an encrypted file; nothing of it was moved")
    old = canonical(file["file_path"])
    file["file_path"] = move(old)
    if file.get("referenced_data_file"):
        file["referenced_data_file"] = move(file["referenced_data_file"])
    if not file.get("content"):
        return
    if old in sizes and sizes[old] != file["file_size_in_bytes"]:
        # Readers find a file's footer by this size. Where its row groups began is no longer true.
        file["file_size_in_bytes"] = sizes[old]
        if file.get("split_offsets") is not None:
            file["split_offsets"] = None
    _move_bounds(file, move)


def _move_bounds(file: Record, move: Move) -> None:
    """A position delete's bounds are addresses of data files: a reader skips deletes by them.

    Equal bounds name the one file that it deletes from. Others are dropped: addresses sort differently at a new place,
    and without bounds a reader looks into the file.
    """
    lower, upper = (_bound(file.get(name)) for name in ("lower_bounds", "upper_bounds"))
    for name in ("lower_bounds", "upper_bounds"):
        kept = [pair for pair in file.get(name) or () if pair["key"] != PATH_ID]
        if lower is not None and lower == upper:
            kept.append({"key": PATH_ID, "value": move(lower.decode()).encode()})
        if file.get(name) is not None:
            file[name] = kept or None


def _bound(bounds: Any) -> bytes | None:
    return next((pair["value"] for pair in bounds or () if pair["key"] == PATH_ID), None)
