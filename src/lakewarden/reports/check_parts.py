"""How each part of a deployment is asked by `config check`. Nothing is written but a probe of our own in the state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from lakewarden.ledger.migrate import inspect_database
from lakewarden.model.clock import Clock
from lakewarden.model.errors import (
    CatalogUnavailableError,
    ClockSkewError,
    JavaMissingError,
    MissingStoreError,
    SparkFailedError,
    StateError,
    StateUnwritableError,
    StoreUnavailableError,
    UnreadableMetadataError,
)
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Catalog
from lakewarden.model.uri import FileUri
from lakewarden.reports.check import Found, Question
from lakewarden.storage.cas import Conflict, open_register
from lakewarden.storage.clock import skew
from lakewarden.storage.stores import Stores

# A catalog's first table may be damaged, which the others are not to be blamed for.
TABLES_TRIED = 5
PROBE = "check.register"
SPARK_SECONDS = 180.0

SLOW = (
    "Check that the address is right and that nothing on the way drops packets. If it is only slow: --timeout SECONDS."
)


def catalog(
    name: str, open_catalog: Callable[[], Catalog], stores: Stores, now: Callable[[], datetime], seconds: float
) -> Question:
    """Lists the catalog's tables, reads the metadata of one, and lists where that table lies."""

    def ask() -> Found:
        opened = open_catalog()
        pointers = opened.pointers()
        if not pointers:
            return Found(
                "answers, and has no tables",
                "If there should be tables, check the catalog's name, warehouse and uri: a SQL catalog keeps several "
                "catalogs in one database, each under its name.",
            )
        for pointer in pointers[:TABLES_TRIED]:
            state = opened.load(pointer, now())
            if state.uuid:
                _list(stores, state.location)
                refused = f" (refused: {state.refusal.code})" if state.refusal else ""
                return Found(f"{_count(len(pointers), 'table')}; read {state.identifier}{refused} in {state.location}")
        assert state.refusal is not None, "a table without uuid is refused"
        why = state.refusal
        tried = min(len(pointers), TABLES_TRIED)
        raise UnreadableMetadataError(
            f"lists {_count(len(pointers), 'table')}, and none of the first {tried} can be read: {why.message}",
            hint=why.hint,
            code=why.code,
        )

    return Question(f"catalog {name}", ask, seconds, CatalogUnavailableError, SLOW)


def store(uri: str, stores: Stores, named_by: str, seconds: float) -> Question:
    """Looks whether a bucket or directory is there, and lists the first of what lies in it."""

    def ask() -> Found:
        place = FileUri.parse(uri)
        there = os.path.isdir(f"/{place.key}") if place.scheme == "file" else stores.at(uri).exists_root()
        if not there:
            raise MissingStoreError(
                "is not there", hint=f"Correct {named_by}; or make it, or mount the disk that should hold it."
            )
        _list(stores, place.as_prefix())
        return Found("is there and can be listed")

    return Question(f"store {uri}", ask, seconds, StoreUnavailableError, SLOW)


def state(location: str, stores: Stores, worker: str, clock: Clock, seconds: float) -> Question:
    """Writes a probe by compare-and-swap, as leases do, reads it back, and compares the clocks.

    The probe stays, and is written over by the next check: only the one door deletes.
    """

    def ask() -> Found:
        register = open_register(stores, f"{location}{PROBE}")
        try:
            seen = register.read()
            wrote = f"{worker} {clock.now().isoformat()}".encode()
            register.write(wrote, seen[1] if seen else None)
            kept = register.read()
        except Conflict:
            # Another check is at it, and the store kept the two apart: what was to be shown.
            return Found(f"{location} can be written to, and keeps conditions")
        except StoreUnavailableError as error:
            if FileUri.parse(location).scheme != "file":
                raise
            hint = "Let this user write to the directory of state.location, or name another one."
            raise StateUnwritableError(f"state.location cannot be written to: {error.message}", hint=hint) from error
        if kept is None or (seen is not None and kept[0] == seen[0]):
            raise StateError(f"{location} does not show the probe {PROBE} that was written just now")
        ahead = skew(stores, location, worker, clock)
        if abs(ahead) > MARGINS.clock_skew:
            raise ClockSkewError(f"the clock of {location} is {ahead.total_seconds():.0f} s ahead of ours")
        return Found(f"{location} can be written to, and keeps conditions")

    return Question("state", ask, seconds, StateError, SLOW)


def database(url: str, clock: Clock, seconds: float) -> Question:
    """Opens the database, and compares its schema with this version's. Migrates nothing."""

    def ask() -> Found:
        seen = inspect_database(url, clock)
        if seen.schema == seen.newest:
            return Found(f"{seen.kind}, schema {seen.newest}")
        if seen.schema is None:
            return Found(f"{seen.kind}, empty; the first command makes schema {seen.newest}")
        return Found(
            f"{seen.kind}, schema {seen.schema}; this version's is {seen.newest}",
            "The next command brings it up to date. Upgrade the other workers that share it, too.",
        )

    return Question("database", ask, seconds, StateError, SLOW)


def java(seconds: float) -> Question:
    def ask() -> Found:
        from lakewarden.pipeline.spark.java import java_found

        version, where = java_found()
        return Found(f"Java {version}, {where}")

    return Question("java", ask, seconds, JavaMissingError)


def spark(start: Callable[[], Any], master: str, conf: Iterable[str]) -> Question:
    """Starts a session and runs a job of a few rows through a Python worker, as every plan does."""

    def ask() -> Found:
        from lakewarden.pipeline.spark.java import java_found
        from lakewarden.pipeline.spark.trial import ran

        try:
            java_found()
        except JavaMissingError:
            return Found("not started: there is no Java", skipped=True)
        version = ran(start())
        settings = sorted(conf)
        with_own = f", with {', '.join(settings)} of yours" if settings else ""
        return Found(f"Spark {version} on {master} started and ran a job{with_own}")

    patience = f"Check spark.master = {master!r}: a cluster that is not reachable is waited for. `--verbose` shows Spark's own log."
    return Question("spark", ask, SPARK_SECONDS, SparkFailedError, patience)


def spark_left_out(master: str) -> Question:
    return Question("spark", lambda: Found(f"{master} was not tried (--no-spark)", skipped=True), 1.0, SparkFailedError)


def _list(stores: Stores, location: str) -> None:
    """The first of what lies there: a listing that is not allowed must be known before a plan needs it."""
    place = FileUri.parse(location)
    if place.scheme == "file":
        stores.places(place.as_prefix())
    else:
        stores.at(location).first_after(place.key, "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
