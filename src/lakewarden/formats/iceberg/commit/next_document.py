"""A metadata document without some of its snapshots and refs, or with one more, edited raw: a field that nobody here knows stays. Pure."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from lakewarden.formats.iceberg.metadata.refs import BRANCH, MAIN

NUMBERED = re.compile(r"(?:^|/)(\d+)-[^/]*$")
KEPT_VERSIONS = 100
PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"

Document = Mapping[str, Any]


def without(
    document: Document, location: str, snapshots: Collection[int], refs: Collection[str], now_ms: int
) -> dict[str, Any]:
    """The document that follows the one at `location`, less these snapshots and refs."""
    left = [s for s in document.get("snapshots") or [] if int(s["snapshot-id"]) not in snapshots]
    revised = {
        **document,
        "snapshots": left,
        "snapshot-log": _snapshot_log(document, {int(s["snapshot-id"]) for s in left}),
        "metadata-log": metadata_log(document, location),
        "last-updated-ms": max(now_ms, int(document["last-updated-ms"])),
    }
    if document.get("refs") is not None:
        revised["refs"] = {name: ref for name, ref in document["refs"].items() if name not in refs}
    for key in ("statistics", "partition-statistics"):
        if document.get(key):
            revised[key] = [entry for entry in document[key] if int(entry["snapshot-id"]) not in snapshots]
    return revised


def with_snapshot(document: Document, location: str, snapshot: Mapping[str, Any], branch: str = MAIN) -> dict[str, Any]:
    """The document that follows the one at `location`, with this snapshot as the newest of a branch.

    The log of snapshots is main's: it says what the table was at some time, which no other branch changes.
    """
    number, moment = snapshot["snapshot-id"], snapshot["timestamp-ms"]
    refs = dict(document.get("refs") or {})
    refs[branch] = {"type": BRANCH, **refs.get(branch, {}), "snapshot-id": number}
    revised = {
        **document,
        "snapshots": [*(document.get("snapshots") or []), snapshot],
        "refs": refs,
        "metadata-log": metadata_log(document, location),
        "last-updated-ms": moment,
    }
    if branch == MAIN:
        logged = {"timestamp-ms": moment, "snapshot-id": number}
        revised |= {"current-snapshot-id": number, "snapshot-log": [*(document.get("snapshot-log") or []), logged]}
    if "sequence-number" in snapshot:
        revised["last-sequence-number"] = snapshot["sequence-number"]
    if "first-row-id" in snapshot:
        revised["next-row-id"] = snapshot["first-row-id"] + snapshot["added-rows"]
    return revised


def with_properties(document: Document, location: str, properties: Mapping[str, str], now_ms: int) -> dict[str, Any]:
    """The document that follows the one at `location`, with these properties; its log is as long as they say."""
    revised = {**document, "properties": {**(document.get("properties") or {}), **properties}}
    return {
        **revised,
        "metadata-log": metadata_log(revised, location),
        "last-updated-ms": max(now_ms, int(document["last-updated-ms"])),
    }


def metadata_log(document: Document, location: str) -> list[dict[str, Any]]:
    """The log with the document that is replaced, as long as the table wants it."""
    properties = document.get("properties") or {}
    kept = max(1, int(properties.get(PREVIOUS_VERSIONS, KEPT_VERSIONS)))
    entry = {"timestamp-ms": document["last-updated-ms"], "metadata-file": location}
    return [*(document.get("metadata-log") or []), entry][-kept:]


def _snapshot_log(document: Document, left: Collection[int]) -> list[Any]:
    """The log behind its last gap: across one, a question for the state at some time would get a wrong answer."""
    log: list[Any] = []
    for entry in document.get("snapshot-log") or []:
        if int(entry["snapshot-id"]) in left:
            log.append(entry)
        else:
            log.clear()
    return log


def next_location(document: Document, location: str, unique: str) -> str:
    """Where the document that follows goes: the next number, in the directory the table keeps its metadata in."""
    properties = document.get("properties") or {}
    directory = properties.get("write.metadata.path") or f"{str(document['location']).rstrip('/')}/metadata"
    found = NUMBERED.search(location)
    number = int(found.group(1)) + 1 if found else len(document.get("metadata-log") or []) + 1
    packed = ".gz" if _gzipped(document) else ""
    return f"{directory.rstrip('/')}/{number:05d}-{unique}{packed}.metadata.json"


def dumps(document: Document) -> bytes:
    """The bytes of a metadata file."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return gzip.compress(text, mtime=0) if _gzipped(document) else text


def _gzipped(document: Document) -> bool:
    properties = document.get("properties") or {}
    return str(properties.get("write.metadata.compression-codec", "none")).lower() == "gzip"
