"""`python -m bench [ROW …]`: measure, print, keep."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench.bench import opened
from bench.measure import Row
from bench.report import keep, line
from bench.rows import BY_NAME_ONLY, ROWS


def main() -> int:
    default = [name for name in ROWS if name not in BY_NAME_ONLY]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; all but {', '.join(BY_NAME_ONLY)} unless named"
    )
    parser.add_argument("--repeat", type=int, default=3, help="warm repetitions, of which the median counts")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "lakewarden-bench")
    parser.add_argument("--shrink", type=int, default=1, help="lakes this much smaller, to try the benchmark; not kept")
    asked = parser.parse_args()
    if unknown := [name for name in asked.rows if name not in ROWS]:
        parser.error(f"there is no row {unknown[0]!r}; rows: {', '.join(ROWS)}")
    failed = 0
    with opened(asked.scratch.resolve(), asked.repeat, asked.shrink) as bench:
        for name in asked.rows or default:
            began = time.monotonic()
            print(f"— {name}", flush=True)
            try:
                rows: list[Row] = ROWS[name](bench)
            except Exception as error:
                # One row that cannot run must not cost the others; the exit code tells.
                print(f"{name} failed: {type(error).__name__}: {error}", flush=True)
                failed += 1
                continue
            print("\n".join(line(row) for row in rows), flush=True)
            print(f"    ({time.monotonic() - began:.0f} s)", flush=True)
            if asked.shrink == 1:
                print(f"    kept in {keep(rows, asked.repeat).relative_to(Path.cwd())}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
