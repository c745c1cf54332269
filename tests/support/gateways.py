"""`lakewarden gateway` as a process of its own, in front of whatever a test names."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes import ends_with_us

RULES = """\
[lineage]
required_keys = ["writer.id", "trigger.type"]
required_keys_for = { overwrite = ["trigger.ticket"], delete = ["trigger.ticket"] }
"""


@dataclass
class RunningGateway:
    """Where it listens, and the process; `log` has what it said on stderr."""

    uri: str
    process: subprocess.Popen[str]
    log: Path
    upstream: str

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def gateway(
    place: Path, upstream: str, rules: str = RULES, more: str = "", catalog: str = "lake"
) -> Iterator[RunningGateway]:
    """A gateway for a catalog at `upstream`; `more` are lines of [gateway]."""
    place.mkdir(parents=True, exist_ok=True)
    config = place / "gateway.toml"
    config.write_text(f'[gateway]\ncatalog = "{catalog}"\nupstream = "{upstream}"\nport = 0\n{more}\n{rules}', "utf-8")
    command = [sys.executable, "-m", "lakewarden", "gateway", "--config", str(config), "--output", "json"]
    log = place / "gateway.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=out, text=True, preexec_fn=ends_with_us())
    assert process.stdout is not None
    said = _first_document(process)
    running = RunningGateway(str(said["listening"]), process, log, str(said["upstream"]))
    try:
        yield running
    finally:
        running.stop()
        process.stdout.close()


def _first_document(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the command prints once it listens."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            continue
        return found
    raise RuntimeError(f"the gateway ended with {process.wait()}: {text}")
