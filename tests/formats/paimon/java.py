"""Paimon's own Java library in the JVM of the tests' Spark session: the peer, and the writer of what pypaimon cannot write."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject
from pyspark import SparkContext

Row = tuple[Any, ...]

SOURCE = Path(__file__).with_name("Peer.java")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What Java's orphan cleanup found, or removed."""

    count: int
    bytes: int
    paths: tuple[Path, ...]


def rows(location: Path, branch: str = "main", *, snapshot: int | None = None, tag: str | None = None) -> list[Row]:
    """Every row of the branch's latest snapshot, or of that snapshot or tag; dates and times in ISO 8601."""
    if tag is not None and branch != "main":
        return _rows(_peer().rowsOfTag(str(location), branch, tag))
    options = {}
    if snapshot is not None:
        options["scan.snapshot-id"] = str(snapshot)
    if tag is not None:
        options["scan.tag-name"] = tag
    return _rows(_peer().rows(str(location), branch, json.dumps(options)))


def changes(location: Path, snapshot: int, branch: str = "main") -> list[Row]:
    """The changelog of one snapshot or decoupled changelog, the kind first; its new rows where it has no changelog."""
    return _rows(_peer().changes(str(location), branch, snapshot))


def between(location: Path, first: int, last: int) -> list[Row]:
    """The rows that came behind one snapshot, up to another, as an incremental query shows them."""
    return _rows(_peer().rows(str(location), "main", json.dumps({"incremental-between": f"{first},{last}"})))


def tracked_rows(location: Path) -> list[Row]:
    """Every row, with its id and the snapshot that last changed it behind its values."""
    return _rows(_peer().trackedRows(str(location)))


def delete_places(location: Path, places: Mapping[str, Sequence[int]]) -> None:
    """A commit of deletion vectors: rows of some files of one partition, by their places."""
    _peer().deletePlaces(str(location), json.dumps({name: list(some) for name, some in places.items()}))


def compact_append(location: Path, options: Mapping[str, str] | None = None) -> int:
    """Paimon's own compaction of a table without buckets; how many groups of files it found."""
    return int(_peer().compactAppend(str(location), json.dumps(dict(options or {}))))


def write(
    location: Path,
    rows: Iterable[Row],
    *,
    branch: str = "main",
    kinds: Iterable[str] | None = None,
    bucket: int = -1,
    overwrite: Mapping[str, str] | None = None,
    compact: bool = False,
    options: Mapping[str, str] | None = None,
) -> None:
    """One commit of rows; `kinds` are +I, -U, +U and -D, one a row. Compaction makes a second snapshot."""
    given = list(rows)
    texts = [[kind, *map(_text, row)] for kind, row in zip(kinds or ["+I"] * len(given), given, strict=True)]
    replaced = None if overwrite is None else json.dumps(dict(overwrite))
    _peer().write(
        str(location), branch, json.dumps(dict(options or {})), json.dumps(texts), bucket, replaced, compact, _scratch()
    )


def compact(
    location: Path,
    partition: Sequence[str] = (),
    bucket: int = 0,
    *,
    branch: str = "main",
    options: Mapping[str, str] | None = None,
) -> None:
    """A full compaction of one bucket; the partition's values in the order of its keys."""
    _peer().compact(
        str(location), branch, json.dumps(dict(options or {})), json.dumps(list(partition)), bucket, _scratch()
    )


def truncate_partitions(location: Path, partitions: Iterable[Mapping[str, str]], branch: str = "main") -> None:
    """Drop partitions by an OVERWRITE snapshot; Java makes one even when nothing matches."""
    _peer().truncate(str(location), branch, json.dumps([dict(one) for one in partitions]))


def analyze(location: Path, branch: str = "main") -> None:
    """Table statistics in a file and an ANALYZE snapshot, as SQL's ANALYZE leaves them."""
    _peer().analyze(str(location), branch)


def compact_manifests(location: Path, branch: str = "main") -> None:
    _peer().compactManifests(str(location), branch)


def create_tag(location: Path, tag: str, snapshot: int, branch: str = "main") -> None:
    _peer().createTag(str(location), branch, tag, snapshot)


def delete_tag(location: Path, tag: str, branch: str = "main") -> None:
    """Remove a tag and, unlike pypaimon, the files that only it held."""
    _peer().deleteTag(str(location), branch, tag)


def create_branch(location: Path, name: str, tag: str) -> None:
    _peer().createBranch(str(location), name, tag)


def fast_forward(location: Path, name: str) -> None:
    """Make main what that branch is."""
    _peer().fastForward(str(location), name)


def rollback(location: Path, snapshot: int, branch: str = "main") -> None:
    _peer().rollback(str(location), branch, snapshot)


def orphans(location: Path, older_than_ms: int | None = None, dry_run: bool = True) -> Cleaned:
    """Java's orphan cleanup of files last written before that instant, by default a second ago."""
    instant = older_than_ms if older_than_ms is not None else _now_ms() - 1000
    count, size, paths = json.loads(_peer().orphans(str(location), instant, dry_run))
    return Cleaned(count, size, tuple(sorted(Path(path.removeprefix("file:")) for path in paths)))


def expire(
    location: Path,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_ms: int | None = None,
    time_retained_ms: int | None = None,
    max_deletes: int | None = None,
    options: Mapping[str, str] | None = None,
    branch: str = "main",
) -> int:
    """Java's snapshot expiry; what is not given comes from the table. Returns how many snapshots went."""
    if older_than_ms is not None:
        time_retained_ms = _now_ms() - older_than_ms
    given = {
        "snapshot.num-retained.max": retain_max,
        "snapshot.num-retained.min": retain_min,
        "snapshot.time-retained": None if time_retained_ms is None else f"{time_retained_ms} ms",
        "snapshot.expire.limit": max_deletes,
    }
    chosen = {key: str(value) for key, value in given.items() if value is not None} | dict(options or {})
    return int(_peer().expire(str(location), branch, json.dumps(chosen), False))


def expire_changelogs(location: Path, options: Mapping[str, str], branch: str = "main") -> int:
    """Java's expiry of decoupled changelogs by `changelog.*` options. Returns how many went."""
    return int(_peer().expire(str(location), branch, json.dumps(dict(options)), True))


def expire_partitions(location: Path, options: Mapping[str, str], branch: str = "main") -> list[dict[str, str]]:
    """Java's partition expiry by `partition.*` options, at once. Returns the partitions it dropped."""
    chosen = {"partition.expiration-check-interval": "0 s", **options}
    dropped: list[dict[str, str]] = json.loads(_peer().expirePartitions(str(location), branch, json.dumps(chosen)))
    return dropped


def _rows(document: str) -> list[Row]:
    return [tuple(row) for row in json.loads(document)]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _now_ms() -> int:
    return int(time.time() * 1000)


@cache
def _scratch() -> str:
    """Where Java's writers spill, until this process ends."""
    path = tempfile.mkdtemp(prefix="paimon-spill-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _peer() -> JavaObject:
    gateway = SparkContext._gateway
    if gateway is None:
        raise RuntimeError("Paimon's Java library lives in the tests' Spark session: ask for the `spark` fixture first")
    return _compiled(gateway)


@cache
def _compiled(gateway: JavaGateway) -> JavaObject:
    """Peer.java, compiled by the compiler that Spark carries: once a JVM, since py4j remembers methods by class name."""
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    # The class loader of the JVM's own start does not see the jars that Spark added afterwards.
    compiler.setParentClassLoader(jvm.org.apache.paimon.options.Options().getClass().getClassLoader())
    # Without it, static methods of interfaces are refused.
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    compiler.cook(SOURCE.read_text())
    constructor = compiler.getClassLoader().loadClass("Peer").getConstructors()[0]
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))
