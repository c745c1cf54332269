"""The demo's words: within eighty columns, its log free of what is not ours, and its promises real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from demo import gateway
from demo.lake import DemoLake, Planted
from demo.log import strange_lines
from demo.terminal import WIDTH, DemoError, Terminal, expect_same
from tests.docs.pages import ROOT

NOISE = """\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
26/11/18 05:11:50 WARN NativeCodeLoader: Unable to load native-hadoop library
:: loading settings :: url = jar:file:/ivy-2.5.3.jar!/org/apache/ivy/core/settings/ivysettings.xml
Ivy Default Cache set to: /home/ana/.ivy2.5.2/cache
\tconfs: [default]
org.apache.iceberg#iceberg-spark-runtime-4.1_2.13 added as a dependency
Traceback (most recent call last):
  File "daemon.py", line 1, in <module>
BrokenPipeError: [Errno 32] Broken pipe
pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED]
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)
"""
OURS = """\
PLAN orphan-cleanup   plan c4200c2ca51072c4ded7cf8656828634   observed 2026-11-15T22:03:50Z
REFUSED demo.finance.invoices   LW-TABLE-002
  files modified after 2026-11-08T22:03:50Z are kept; the plan expires 2026-11-16T22:03:50Z
✓ spark: Spark 4.1.4 on local[2] started and ran a job
LW-CONF-001 there is no configuration file lakewarden.toml; nothing was done
"""


def test_every_line_that_is_not_ours_is_seen_and_none_that_is() -> None:
    assert strange_lines(NOISE) == NOISE.splitlines()
    assert strange_lines(OURS) == []


def test_the_screen_has_the_command_and_its_time_and_the_log_its_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(tmp_path)
    terminal.title("A title")
    terminal.run("--version")
    lines = capsys.readouterr().out.splitlines()
    assert [len(line) for line in lines] == [WIDTH, WIDTH]
    assert lines[1].startswith("$ lakewarden --version")
    assert lines[1].endswith(" s")
    log = terminal.log.read_text(encoding="utf-8")
    assert "$ lakewarden --version\n0.1.0\n" in log


def test_a_command_that_ends_otherwise_than_promised_fails_the_demo(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="ended with 64"):
        Terminal(tmp_path).run("tables")
    assert "LW-CONF-001" in (tmp_path / "demo.log").read_text(encoding="utf-8")
    Terminal(tmp_path).run("tables", allowed=(64,))


def test_a_file_too_many_or_too_few_fails_the_demo(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    expect_same({one}, {one})
    for gone, wanted in (({one, other}, {one}), ({one}, {one, other})):
        with pytest.raises(DemoError, match="the wrong files went"):
            expect_same(gone, wanted)


def test_the_gateway_of_the_demo_refuses_one_commit_and_lets_one_through(tmp_path: Path) -> None:
    catalog = SqlCatalog("demo", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    terminal = Terminal(tmp_path)
    gateway.tell(tmp_path, DemoLake(tmp_path, catalog, (), {}, Planted((), {})), terminal)
    told = terminal.log.read_text(encoding="utf-8")
    assert "Listening at http://127.0.0.1:" in told
    assert "commit refused" in told
    assert strange_lines(told) == []
    assert len(told.splitlines()[0]) <= WIDTH
    catalog.close()


@pytest.mark.soak
def test_the_whole_demo_in_two_screens(tmp_path: Path, java: None) -> None:
    lake = tmp_path / "demo-lake"
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--dir", str(lake)], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= 52, "two screens"
    # Paths of this test are longer than demo-lake/, which the titles name.
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= WIDTH
    assert strange_lines((lake / "demo.log").read_text(encoding="utf-8")) == []
