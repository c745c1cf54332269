"""Spark Connect, by whatever way it is asked for: refused, because a job of ours needs the context behind a session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lakewarden.model.errors import SparkConnectError

REMOTE = "spark.remote"
# What PySpark goes by: an address to connect to, and that a session of this process is connected already.
VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
SCHEME = "sc://"
PACKAGES = ("pyspark.sql.connect", "databricks.connect")


def refuse_connect(master: str, conf: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
    """Raise SparkConnectError where a session of ours would be one of Spark Connect."""
    asked = next((name for name in VARIABLES if (os.environ if env is None else env).get(name)), None)
    if master.startswith(SCHEME):
        raise _refusal(f"spark.master = {master!r} is an address of Spark Connect")
    if REMOTE in conf:
        raise _refusal(f"[spark.conf] has {REMOTE}, which asks for Spark Connect")
    if asked is not None:
        raise _refusal(f"the variable {asked} asks for Spark Connect")


def refuse_connected(session: Any) -> None:
    """Raise SparkConnectError for a session that was handed in and has no context of its own."""
    kinds = [kind.__module__ for kind in type(session).__mro__]
    if any(module == package or module.startswith(f"{package}.") for module in kinds for package in PACKAGES):
        raise _refusal("the session that was handed in is one of Spark Connect")


def _refusal(why: str) -> SparkConnectError:
    return SparkConnectError(f"{why}, and Lakewarden needs a session with a context of its own; nothing was done")
