"""`python -m bench.plans CONFIG …`: a plan of each deployment, one after the other in one session; prints how long each took."""

from __future__ import annotations

import json
import sys

import lakewarden
from bench.measure import Stopwatch


def main(*configs: str) -> None:
    told = []
    for config in configs:
        with lakewarden.open(config) as warden:
            warden.runs()
            watch = Stopwatch()
            result = warden.plan("orphans", progress=watch)
            sample = watch.sample()
        if refused := [table.refusal for table in result.plan.tables if table.refusal]:
            raise RuntimeError(f"refused: {refused[0]}")
        told.append({"seconds": sample.seconds, "stages": sample.stages})
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
