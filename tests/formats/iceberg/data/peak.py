"""`python -m tests.formats.iceberg.data.peak ORDER`: carry an order out; print its answer and the most memory it took."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lakewarden.formats.iceberg.compaction.compactor import IcebergRewriteWorker
from lakewarden.storage.stores import Stores


def resident() -> int:
    """The most that this program held; what `getrusage` tells is also what the process held before it became this program."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(order: str) -> None:
    worker, stores = IcebergRewriteWorker(), Stores({})
    before = resident()
    answer = json.loads(worker.rewrite(Path(order).read_text(), stores))
    print(json.dumps({"answer": answer, "before": before, "peak": resident()}))


if __name__ == "__main__":
    main(sys.argv[1])
