"""What every row is given: the scratch directory, how often to repeat, and the session and server that are shared."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peer import open_session
from bench.s3 import Server, server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent


@dataclass
class Bench:
    """Started once a run; the session and the S3 server when first asked for."""

    scratch: Path
    repeat: int = 3
    shrink: int = 1
    _stack: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def spark(self) -> SparkSession:
        session = open_session(self.scratch)
        self._stack.callback(session.stop)
        return session

    @cached_property
    def server(self) -> Server:
        return self._stack.enter_context(server(self.scratch))

    @property
    def jars(self) -> str:
        """The jars that the session resolved, as files."""
        listed = self.spark.sparkContext.getConf().get("spark.jars", "") or ""
        return ",".join(name.removeprefix("file://") for name in listed.split(","))

    def close(self) -> None:
        self._stack.close()


@contextmanager
def opened(scratch: Path, repeat: int, shrink: int) -> Iterator[Bench]:
    scratch.mkdir(parents=True, exist_ok=True)
    bench = Bench(scratch, repeat, shrink)
    try:
        yield bench
    finally:
        bench.close()


def command(*words: str, env: dict[str, str] | None = None) -> str:
    """Run a command of this environment to its end; its standard output. Raises with what it said if it failed."""
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        raise RuntimeError(f"{words[0]} … ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


LAKEWARDEN = str(Path(sys.executable).parent / "lakewarden")
