"""Servers of the tests end with the process that started them, also when that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = """
import os, subprocess, sys, time
from tests.support.processes import ends_with_us
other = {"user": "nobody", "extra_groups": []} if sys.argv[1] == "another user" else {}
server = subprocess.Popen(["sleep", "600"], start_new_session=True, preexec_fn=ends_with_us(), **other)
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("user", ["this user", "another user"])
def test_a_server_ends_with_the_test_process_that_was_killed(user: str) -> None:
    if user == "another user" and os.geteuid() != 0:
        pytest.skip("only root starts processes of other users")
    tests = subprocess.Popen([sys.executable, "-c", START, user], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert tests.stdout is not None
    server = int(tests.stdout.readline())
    tests.send_signal(signal.SIGKILL)
    tests.wait(10)
    tests.stdout.close()
    deadline = time.monotonic() + 10
    while is_there(server):
        assert time.monotonic() < deadline, "the server lives on"
        time.sleep(0.01)


def is_there(process: int) -> bool:
    """Whether it runs. One that ended and that nobody has asked after is a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
