"""Commands that need no Spark: how long they take, and proof that they start no JVM."""

from __future__ import annotations

import os
from pathlib import Path

from bench.bench import LAKEWARDEN, Bench, command
from bench.lakes import local_lake
from bench.measure import Figures, Row, load, timed
from bench.ours import Deployment, plan

LIMIT = 1.0


def startup(bench: Bench) -> list[Row]:
    lake = local_lake(bench.scratch, "fleet100", bench.shrink)
    assert bench.spark
    deployment = Deployment.fresh(lake, bench.scratch)
    warden = deployment.open()
    _, result = plan(deployment, warden)
    warden.close()
    config = ("--config", deployment.config)
    place = result.path.removeprefix("file://")
    rows = [
        _start(bench, deployment.base, "show", ("show", place, *config)),
        _start(bench, deployment.base, "runs", ("runs", *config)),
        _start(bench, deployment.base, "apply --help", ("apply", "--help")),
    ]
    deployment.discard()
    return rows


def _start(bench: Bench, base: Path, name: str, words: tuple[str, ...]) -> Row:
    """Seconds against the limit of one. A `java` that only leaves a mark stands first on every path."""
    began, mark = load(), base / "java-was-started"
    home = base / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    trap = home / "bin" / "java"
    trap.write_text(f"#!/bin/sh\ntouch '{mark}'\nexit 1\n")
    trap.chmod(0o755)
    env = {**os.environ, "JAVA_HOME": str(home), "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    samples = [timed(lambda: command(LAKEWARDEN, *words, env=env)) for _ in range(bench.repeat + 1)][1:]
    assert not mark.exists(), f"`lakewarden {name}` started a JVM"
    mine = Figures.of(samples)
    limit = Figures(LIMIT, {}, ())
    return Row(
        name, f"`lakewarden {name}`, no JVM", mine, limit, LIMIT / mine.value, 1, (began, load()), note="against 1 s"
    )
