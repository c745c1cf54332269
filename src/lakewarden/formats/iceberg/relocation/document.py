"""A metadata document for a table at a new place: only the snapshots that were moved, and refs that keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lakewarden.formats.iceberg.metadata.document import PATH_PROPERTIES, snapshots_of
from lakewarden.model.errors import IncompleteManifestError
from lakewarden.model.tiers import MovedTable
from lakewarden.model.uri import canonical

Document = Mapping[str, Any]

MAIN = "main"
COLD = "cold-copy."
# Properties of the place that the table had, and of the jobs that looked after it there.
LEFT_BEHIND = (*PATH_PROPERTIES, "write.location-provider.impl", "gc.enabled")
LEFT_PREFIXES = ("lakewarden.", COLD)
# Lists that a document keeps by id: an older document may know one that a newer one has dropped.
BY_ID = (("schemas", "schema-id"), ("partition-specs", "spec-id"), ("sort-orders", "order-id"))


def moved_document(sources: Sequence[Document], previous: Document | None, table: MovedTable) -> dict[str, Any]:
    """The newest source, with the wanted snapshots of all of them and those of `previous`, which are there already."""
    newest = sources[-1]
    snapshots = {int(s["snapshot-id"]): dict(s) for s in snapshots_of(previous or {})}
    for document in sources:
        for snapshot in snapshots_of(document):
            if (number := int(snapshot["snapshot-id"])) in table.snapshots:
                snapshots[number] = {**snapshot, "manifest-list": table.move(str(snapshot["manifest-list"]))}
    if lost := sorted(set(table.snapshots) - snapshots.keys()):
        raise IncompleteManifestError(f"no archived metadata has the snapshot {lost[0]}")
    ordered = sorted(snapshots.values(), key=_age)
    head = ordered[-1]
    known = [document for document in (previous, *sources) if document is not None]
    made = {
        **newest,
        "table-uuid": table.uuid,
        "location": table.move.target.rstrip("/"),
        "properties": _properties(newest, table),
        "snapshots": ordered,
        "current-snapshot-id": head["snapshot-id"],
        "refs": _refs(ordered, tagged=table.read_only),
        "snapshot-log": _log(newest, previous, head, snapshots),
        "metadata-log": [],
        **{name: _by_id(known, name, key) for name, key in BY_ID if name in newest},
        **{name: _statistics(sources, previous, table, name) for name in ("statistics", "partition-statistics")},
    }
    if "last-sequence-number" in newest:
        made["last-sequence-number"] = max(int(document.get("last-sequence-number") or 0) for document in known)
    return _with_schema_of(head, made)


def _age(snapshot: Document) -> tuple[int, int]:
    return int(snapshot.get("sequence-number") or 0), int(snapshot["timestamp-ms"])


def _properties(newest: Document, table: MovedTable) -> dict[str, str]:
    kept = {
        str(key): str(value)
        for key, value in (newest.get("properties") or {}).items()
        if key not in LEFT_BEHIND and not key.startswith(LEFT_PREFIXES)
    }
    # Whoever registers a cold table must not have an engine's expiry take its files.
    guard = {"gc.enabled": "false"} if table.read_only else {}
    return {**kept, **guard, **{COLD + key: value for key, value in table.origin.items()}}


def origin_of(document: Document) -> dict[str, str]:
    """Where a moved table came from, as its own properties say."""
    properties = document.get("properties") or {}
    return {key.removeprefix(COLD): str(value) for key, value in properties.items() if key.startswith(COLD)}


def _refs(ordered: Sequence[Document], *, tagged: bool) -> dict[str, dict[str, Any]]:
    refs = {MAIN: {"snapshot-id": ordered[-1]["snapshot-id"], "type": "branch"}}
    if tagged:
        for snapshot in ordered:
            refs[f"snapshot-{snapshot['snapshot-id']}"] = {"snapshot-id": snapshot["snapshot-id"], "type": "tag"}
    return refs


def _log(newest: Document, previous: Document | None, head: Document, here: Mapping[int, Document]) -> list[Document]:
    """What main was when, back to the first gap: a query "as of" a moment in a gap must fail, not answer with the state before."""
    log = list(newest.get("snapshot-log") or ())
    places = [place for place, entry in enumerate(log) if entry["snapshot-id"] == head["snapshot-id"]]
    if not places:
        return [{"snapshot-id": head["snapshot-id"], "timestamp-ms": head["timestamp-ms"]}]
    first = last = places[-1]
    while first > 0 and log[first - 1]["snapshot-id"] in here:
        first -= 1
    run = log[first : last + 1]
    earlier = list((previous or {}).get("snapshot-log") or ())
    parent = here[int(run[0]["snapshot-id"])].get("parent-snapshot-id")
    if first > 0 or parent is None:
        return run
    # A run that died after it wrote the metadata writes it again: what comes after the parent is then in both.
    again = {entry["snapshot-id"] for entry in run}
    while earlier and earlier[-1]["snapshot-id"] in again:
        earlier.pop()
    return [*earlier, *run] if earlier and earlier[-1]["snapshot-id"] == parent else run


def _by_id(documents: Iterable[Document], name: str, key: str) -> list[Any]:
    found = {item[key]: item for document in documents for item in document.get(name) or ()}
    return [found[number] for number in sorted(found)]


def _statistics(
    sources: Sequence[Document], previous: Document | None, table: MovedTable, name: str
) -> list[dict[str, Any]]:
    found = {int(entry["snapshot-id"]): dict(entry) for entry in (previous or {}).get(name) or ()}
    for document in sources:
        for number, entry in statistics_of(document, name, table.snapshots):
            if canonical(entry["statistics-path"]) in table.statistics:
                found[number] = {**entry, "statistics-path": table.move(entry["statistics-path"])}
    return [found[number] for number in sorted(found)]


def statistics_of(document: Document, name: str, snapshots: Sequence[int]) -> Iterator[tuple[int, Document]]:
    """The entries of these snapshots under `statistics` or `partition-statistics`."""
    for entry in document.get(name) or ():
        if (number := int(entry["snapshot-id"])) in snapshots:
            yield number, entry


def _with_schema_of(head: Document, made: dict[str, Any]) -> dict[str, Any]:
    """The table's schema is the one of its newest snapshot: columns that came later would show as nulls."""
    number = head.get("schema-id")
    schema = next((s for s in made.get("schemas") or () if s.get("schema-id") == number), None)
    if number is None or schema is None:
        return made
    made["current-schema-id"] = number
    if "schema" in made:
        made["schema"] = schema
    return made
