"""The settings of a Spark session by which its SQL says who commits: put there for a while, and as before afterwards."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from lakewarden.model.errors import ArgumentError
from lakewarden.model.lineage import KEYS

SETTING = "spark.sql.iceberg.snapshot-property."
# In the session itself, because two objects of Python's may be one session.
HOLDER = "lakewarden.lineage.thread"

_LOCK = threading.Lock()


@contextmanager
def telling(spark: Any, said: Mapping[str, str]) -> Iterator[None]:
    """Commits of the session's SQL have these properties, and none of an outer block's. Raises ArgumentError.

    A session has one set of settings for all its threads: two blocks at once would sign each other's commits, and the
    one that ends last would leave the other's name behind.
    """
    mine = f"{os.getpid()}.{threading.get_ident()}"
    wanted = {SETTING + name: said.get(name) for name in (*KEYS, *said)} | {HOLDER: mine}
    with _LOCK:
        if spark.conf.get(HOLDER, None) not in (None, mine):
            raise ArgumentError(
                "lineage: another thread says its lineage on this Spark session now, and both would sign each other's "
                "commits; give each thread a session of its own (spark.newSession()); nothing was committed",
                argument="spark",
            )
        before = {name: spark.conf.get(name, None) for name in wanted}
        spark.conf.set(HOLDER, mine)
    try:
        _put(spark, wanted)
        yield
    except BaseException:
        # What went wrong is the story, also where the session is gone with its settings.
        with suppress(Exception):
            _put(spark, before)
        raise
    _put(spark, before)


def _put(spark: Any, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)
