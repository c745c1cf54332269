"""From nothing: our whole command against a whole script of the peer, each a process of its own."""

from __future__ import annotations

import json
import sys

from bench.bench import LAKEWARDEN, Bench, command
from bench.lakes import Lake, local_lake
from bench.measure import Figures, Row, load, timed
from bench.ours import Deployment


def cold(bench: Bench) -> list[Row]:
    return [_cold(bench, "one", 1.5), _cold(bench, "fleet100", 5)]


def _cold(bench: Bench, kind: str, target: float) -> Row:
    lake, began = local_lake(bench.scratch, kind, bench.shrink), load()
    jars = bench.jars
    ours, theirs = [], []
    for _ in range(bench.repeat):
        ours.append(timed(lambda: _command(bench, lake)))
        theirs.append(timed(lambda: _script(lake, jars)))
    mine, peer = Figures.of(ours), Figures.of(theirs)
    work = f"cold, whole command against whole script, {kind}"
    note = "files in the page cache; the peer's jars resolved before"
    return Row(f"cold-{kind}", work, mine, peer, peer.value / mine.value, target, (began, load()), note=note)


def _command(bench: Bench, lake: Lake) -> None:
    deployment = Deployment.fresh(lake, bench.scratch)
    words = (
        "plan",
        "orphans",
        "--config",
        deployment.config,
        "--out",
        str(deployment.base / "plan"),
        "--output",
        "json",
    )
    found = json.loads(command(LAKEWARDEN, *words))
    _check(lake, found["totals"]["verdicts"]["orphan"]["files"])
    deployment.discard()


def _script(lake: Lake, jars: str) -> None:
    words = ("--catalog", lake.name, "--database", str(lake.database), "--warehouse", lake.warehouse, "--jars", jars)
    found = json.loads(command(sys.executable, "-m", "bench.peer_script", *words, *lake.tables()).splitlines()[-1])
    _check(lake, found["orphans"])


def _check(lake: Lake, orphans: int) -> None:
    assert orphans == lake.shape.tables * lake.shape.orphans, f"{orphans} orphans in {lake.name}"
