"""Building the parts: what has to be in place before a second thread is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STARTING = """
import sys
from lakewarden import wiring
from lakewarden.model.clock import SystemClock
from lakewarden.settings import load_settings

class Thread:
    def __init__(self, *_, **__): pass
    def submit(self, work): print("pyspark.sql" in sys.modules)
    def shutdown(self, wait): pass

wiring.ThreadPoolExecutor = Thread
wiring.Wiring(load_settings(sys.argv[1], env={}), SystemClock())._warm_spark()
"""


def test_pyspark_is_imported_whole_before_a_thread_starts_the_session(tmp_path: Path) -> None:
    """Two threads that import PySpark at once see halves of it: `history` failed so when it had months to sum up."""
    config = tmp_path / "lakewarden.toml"
    config.write_text(f'[worker]\nid = "host-1"\n[state]\nlocation = "file://{tmp_path}/state"\n', "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", STARTING, str(config)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True"]
