"""Commands as processes whose streams are closed, full or read no further: the exit code stays, and no trace is shown."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from lakewarden.ledger.database import open_ledger
from lakewarden.model.actor import Actor
from lakewarden.model.clock import SystemClock
from lakewarden.model.run import RunResult, RunStatus
from tests.support.configuration import write_toml

RUNS = 150


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment whose list of runs is longer than a pipe holds. Only read."""
    tmp_path = tmp_path_factory.mktemp("many-runs")
    write_toml(tmp_path / "lakewarden.toml", {"state": {"location": f"file://{tmp_path}/state"}})
    (tmp_path / "state").mkdir()
    ledger = open_ledger(f"sqlite:///{tmp_path}/state/lakewarden.db", SystemClock())
    for number in range(RUNS):
        ledger.runs.start(f"{number:016x}", "orphan-cleanup", None, Actor("ada", "host-1"))
        result = RunResult(f"{number:016x}", "p", "orphan-cleanup", RunStatus.DONE, kept={"k" * 600: 1})
        ledger.runs.finish(result.run_id, "done", result.as_json())
    ledger.close()
    return tmp_path


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m lakewarden"
    command = ["bash", "-o", "pipefail", "-c", line.replace("lakewarden", program)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_has_enough_costs_neither_words_nor_the_exit_code(many_runs: Path, form: str) -> None:
    done = shell(f"lakewarden runs --limit {RUNS} --output {form} | head -1", many_runs)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_the_exit_code_is_the_commands_own_though_nobody_reads(many_runs: Path) -> None:
    done = shell("lakewarden runs nope --output json | true", many_runs)
    assert (done.returncode, done.stderr) == (10, "")


def test_a_reader_of_stderr_that_has_gone_stops_nothing(many_runs: Path) -> None:
    done = shell("(lakewarden runs nope --verbose; echo $? >&3) 3>code 2>&1 | true; cat code", many_runs)
    assert (done.stdout, done.stderr) == ("10\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_not_given_to_the_database(many_runs: Path, closed: str) -> None:
    """Whatever prints would write into it."""
    before = (many_runs / "state" / "lakewarden.db").read_bytes()
    done = shell(f"lakewarden runs {closed}", many_runs)
    assert (done.returncode, done.stderr) == (0, "")
    assert (many_runs / "state" / "lakewarden.db").read_bytes() == before


def test_output_that_cannot_be_written_is_a_failure_in_words(many_runs: Path) -> None:
    done = shell("lakewarden runs >/dev/full", many_runs)
    assert (done.returncode, done.stderr) == (1, "The output could not be written: No space left on device.\n")


def test_talk_that_cannot_be_written_changes_neither_data_nor_exit_code(many_runs: Path) -> None:
    done = shell("lakewarden runs nope --verbose 2>/dev/full", many_runs)
    assert (done.returncode, done.stdout) == (10, "")
    done = shell("lakewarden runs nope --output json --verbose 2>/dev/full", many_runs)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (10, "LW-CORE-010")


def test_an_error_stream_that_is_a_file_for_reading_is_done_without(many_runs: Path) -> None:
    """A shell whose stderr is closed may leave another file in its place."""
    done = shell("lakewarden runs nope 2</dev/null", many_runs)
    assert (done.returncode, done.stdout) == (10, "")


def test_names_that_an_old_terminal_cannot_show_are_escaped(tmp_path: Path) -> None:
    done = shell("PYTHONIOENCODING=ascii lakewarden policy lake.größe.t --output json", tmp_path)
    assert done.returncode == 64
    assert "Traceback" not in done.stderr


def test_what_libraries_log_or_warn_of_is_shown_with_verbose_alone(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['lakewarden', '--version', *sys.argv[1:]]\n"
        "from lakewarden import __main__\n"
        "from lakewarden.cli import main as cli\n"
        "import logging, warnings\n"
        "def talk(*_):\n"
        "    cli_main()\n"
        "    logging.getLogger('some.library').error('a word')\n"
        "    warnings.warn('another word')\n"
        "    return 0\n"
        "cli_main, cli.main = cli.main, talk\n"
        "__main__.run()\n"
    )
    for options, words in (((), 0), (("--verbose",), 2)):
        done = subprocess.run([sys.executable, "-c", program, *options], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert sum(word in done.stderr for word in ("a word", "another word")) == words


def test_threads_within_a_library_do_not_abort_the_end(tmp_path: Path) -> None:
    """Such a thread was torn out of C++ by Python's own ending: the answer was printed, and the exit code was -6."""
    program = (
        "import io, threading\n"
        "import pyarrow as pa, pyarrow.parquet as pq\n"
        "sink = io.BytesIO()\n"
        "pq.write_table(pa.table({'x': range(100_000)}), sink, row_group_size=1_000)\n"
        "def read():\n"
        "    begun.release()\n"
        "    while True:\n"
        "        pq.read_table(pa.PythonFile(io.BytesIO(sink.getvalue()), mode='r'))\n"
        "begun = threading.Semaphore(0)\n"
        "for _ in range(4):\n"
        "    threading.Thread(target=read, daemon=True).start()\n"
        "    begun.acquire()\n"
        "import atexit\n"
        "atexit.register(print, 'and the last')\n"
        "from lakewarden.cli.streams import leave\n"
        "print('a word')\n"
        "leave(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "a word\nand the last\n", "")


DRAWS_ON = """
import os, sys, threading
from lakewarden.cli.streams import give_terminal_back, use_lasting_streams

def draw():
    os.write(2, b"drawn ")
    sys.stderr.write("drawn\\n")

use_lasting_streams()
draw()
give_terminal_back()
late = threading.Thread(target=draw)
late.start()
late.join()
os._exit(130)
"""


def test_nothing_is_drawn_on_a_terminal_that_was_given_back() -> None:
    """A thread that draws progress may come to it between the end of the line and the end of the process."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", DRAWS_ON], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    drawn = b""
    with suppress(OSError):  # the terminal is gone with its last process
        while piece := os.read(terminal, 1 << 16):
            drawn += piece
    os.close(terminal)
    assert (process.wait(20), drawn) == (130, b"drawn drawn\r\n\x1b[?25h\r\n")
