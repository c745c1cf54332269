"""A worker process: `lakewarden run compaction`, again and again, until it is told to stop.

    python -m tests.jobs.compaction.workers.worker CONFIG STOP_FILE LEASE_SECONDS

One process for many commands: a JVM for each would be most of the test. Leases live shorter than any setting allows.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import lakewarden
from lakewarden.model.compaction import CompactionPolicy
from lakewarden.model.errors import LakewardenError
from lakewarden.model.margins import MARGINS


def main(config: str, stop: str, lease_seconds: str) -> None:
    object.__setattr__(MARGINS, "lease_seconds", float(lease_seconds))
    policy = CompactionPolicy.of

    def shorter(values: Any) -> CompactionPolicy:
        return replace(policy(values), lease_ttl_seconds=int(lease_seconds))

    CompactionPolicy.of = staticmethod(shorter)  # type: ignore[method-assign]
    with lakewarden.open(config) as warden:
        while not Path(stop).exists():
            try:
                found = warden.run("compaction").as_json()
            except LakewardenError as error:
                found = {"error": error.code, "message": error.message}
            print(json.dumps(found), flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
