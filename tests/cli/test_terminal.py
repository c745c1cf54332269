"""Commands on a real terminal: every line is ours, nothing of Spark, Java or Python is, whatever happens."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakewarden.cli.streams import SIGN, WIPE
from tests.support.configuration import write_toml
from tests.support.lakes import plant_orphans, small_lake
from tests.support.terminals import CTRL_C, CTRL_D, Terminal

NOT_OURS = re.compile(
    r"Traceback|Exception|Error:|WARN|ERROR|INFO|log4j|SLF4J|Ivy|:: |py4j|pyspark|JVM|Using incubator|File \"|^\s+at "
)
HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"
STEPS = ["start", "load tables", "start Spark", "list and compare", "look again", "judge", "write the plan"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A directory with a configuration and a lake of three tables, each with old orphans."""
    lake = small_lake(tmp_path / "lake")
    catalog = lake.catalog()
    for identifier in lake.tables:
        plant_orphans(catalog.load_table(identifier).location(), ["data/{}-orphan.parquet"] * 5)
    catalog.close()
    write_toml(
        tmp_path / "lakewarden.toml",
        {
            "state": {"location": f"file://{tmp_path}/state"},
            "spark": {"master": "local[2]"},
            "catalogs": {"lake": {"format": "iceberg", "properties": lake.properties}},
            "orphan_cleanup": {"max_orphan_share": 1.0},
        },
    )
    return tmp_path


def nothing_foreign(lines: list[str]) -> None:
    assert not [line for line in lines if NOT_OURS.search(line)]


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_a_plan_with_spark_shows_our_lines_alone(lake: Path, columns: int, rows: int) -> None:
    terminal = Terminal("plan", "orphans", "--out", str(lake / "plan"), cwd=lake, columns=columns, rows=rows)
    terminal.wait_for("start")
    assert terminal.end() == 0
    lines = [line for line in terminal.lines if line.strip()]
    nothing_foreign(lines)
    ticked = [line for line in lines if line.startswith("✓")]
    assert sorted(re.sub(r"^✓ |  .*", "", line) for line in ticked) == sorted(STEPS)
    shown = lines[max(lines.index(line) for line in ticked) + 1 :]
    assert shown[0].startswith("PLAN orphan-cleanup")
    assert any(line.startswith("Nothing has been deleted.") for line in shown)
    assert shown[-1].endswith(f"lakewarden apply file://{lake}/plan/ --yes"), "a command is in one piece"
    logs = list((lake / "state" / "logs").glob("spark-*.log"))
    assert len(logs) == 1


@pytest.mark.usefixtures("java")
def test_a_failing_spark_is_one_error_that_names_the_log(lake: Path) -> None:
    """Ivy is asked for a jar that nowhere is, so that the JVM has much to say."""
    config = (lake / "lakewarden.toml").read_text()
    nowhere = f'"spark.jars.packages" = "org.example:nothing:1.0"\n"spark.jars.ivy" = "{lake}/ivy"\n'
    nowhere += f'"spark.jars.ivySettings" = "{lake}/ivy.xml"\n'
    (lake / "ivy.xml").write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{lake}/jars/[artifact].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    (lake / "lakewarden.toml").write_text(f"{config}\n[spark.conf]\n{nowhere}")
    terminal = Terminal("plan", "orphans", cwd=lake)
    assert terminal.end() == 1
    lines = [line for line in terminal.lines if line.strip()]
    errors = [line for line in lines if line.startswith("LW-")]
    assert [line.split()[0] for line in errors] == ["LW-SPARK-002"]
    nothing_foreign([line for line in lines if not line.startswith("LW-")])
    found = re.search(r"Spark's log:\s+(\S+\.log)", terminal.text)
    assert found is not None
    assert "org.example#nothing" in Path(found[1]).read_text()


@pytest.mark.parametrize("home", ["", "/nonexistent"])
def test_without_java_there_is_one_clear_error(lake: Path, home: str) -> None:
    path = str(Path(sys.executable).parent)
    wrapped = Path(sys.prefix) / "java" / "bin" / "java"
    if wrapped.exists():
        pytest.skip("this environment brings its own Java")
    environment = {"PATH": path, "JAVA_HOME": home, "SPARK_HOME": "/nonexistent"}
    terminal = Terminal("plan", "orphans", cwd=lake, env=environment)
    assert terminal.end() == 1
    lines = [line for line in terminal.lines if line.strip()]
    nothing_foreign(lines)
    assert [line.split()[0] for line in lines if line.startswith("LW-")] == ["LW-SPARK-001"]
    assert not lines[-1].startswith("✓")


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("times", [1, 2, 3])
def test_ctrl_c_while_spark_starts_ends_a_plan_at_once_and_says_that_nothing_was_changed(
    lake: Path, times: int
) -> None:
    terminal = Terminal("plan", "orphans", cwd=lake)
    terminal.wait_for("start Spark")
    for _ in range(times):
        terminal.type(CTRL_C)
        time.sleep(0.2)  # Signals that come together are one.
    # A late signal may meet the last steps of Python itself, which ends by it then: to a shell that is 130 too.
    assert terminal.end(20) in ((130,) if times == 1 else (130, -signal.SIGINT))
    nothing_foreign(terminal.lines)
    assert terminal.raw.count(HIDDEN), "progress was being drawn"
    assert terminal.raw.rfind(SHOWN) > terminal.raw.rfind(HIDDEN), "the terminal has its cursor back"
    assert re.search(r"\n(\^C)*$", terminal.text), "the prompt begins a line"
    if times == 1:
        assert "LW-CORE-002 stopped by SIGINT" in terminal.text
        assert "Nothing was being changed." in terminal.text
        assert "journal" not in terminal.text


@pytest.fixture
def planned(lake: Path) -> Path:
    """The same with a plan to apply."""
    assert Terminal("plan", "orphans", "--out", str(lake / "plan"), cwd=lake).end() == 0
    return lake


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("keys", "code"), [(CTRL_C, 130), (CTRL_D, 64), ("n\r", 64), (CTRL_C * 2, 130)])
def test_at_the_question_nothing_has_been_changed(planned: Path, keys: str, code: int) -> None:
    terminal = Terminal("apply", "plan", cwd=planned)
    terminal.wait_for("[y/N]")
    terminal.type(keys)
    assert terminal.end(20) == code
    nothing_foreign(terminal.lines)
    assert "journal" not in terminal.text
    if len(keys) == 1:
        after = terminal.text.split("[y/N]", 1)[1]
        assert re.search(r"\n(LW-\S+) ", after), "the error stands on a line of its own"
    assert len([*(planned / "lake").rglob("*orphan*")]) == 15


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_commands_without_spark_show_our_lines_alone(lake: Path, columns: int, rows: int) -> None:
    for words, code in (("runs", 0), ("leases", 0), ("show nowhere", 10), ("tables", 0), ("doctor", 0), ("-h", 0)):
        terminal = Terminal(*words.split(), cwd=lake, columns=columns, rows=rows)
        assert terminal.end() == code, terminal.text
        nothing_foreign(terminal.lines)


def test_the_first_sign_of_life_comes_at_once(lake: Path) -> None:
    """Within 0.2 s; on a machine that needs long to start Python itself, within three times that."""
    environment = {"SPARK_HOME": "/nonexistent"}
    waits, starts = [], []
    for _ in range(5):
        terminal = Terminal("plan", "orphans", cwd=lake, env=environment)
        waits.append(terminal.wait_for("start"))
        terminal.close()
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import argparse, threading"], check=True)
        starts.append(time.monotonic() - began)
    assert min(waits) < max(0.2, 3 * min(starts)), (waits, starts)


@pytest.mark.parametrize("words", ["runs", "runs --output json", "runs nope", "nonsense", "--version"])
def test_the_sign_of_life_is_wiped_out_before_anything_else_is_shown(lake: Path, words: str) -> None:
    terminal = Terminal(*words.split(), cwd=lake)
    terminal.end()
    assert terminal.raw.startswith(SIGN + WIPE)
    assert SIGN not in terminal.raw[len(SIGN) :]


@pytest.mark.parametrize(("words", "env"), [("runs --quiet", {}), ("", {"_LAKEWARDEN_COMPLETE": "complete_bash"})])
def test_no_sign_of_life_where_it_is_not_wanted(lake: Path, words: str, env: dict[str, str]) -> None:
    """A shell asks for completions while its user's half-written line is on the terminal."""
    terminal = Terminal(*words.split(), cwd=lake, env={**env, "COMP_WORDS": "lakewarden ru", "COMP_CWORD": "1"})
    assert terminal.end() == 0
    assert SIGN not in terminal.raw
    assert WIPE not in terminal.raw


def test_a_signal_before_the_command_begins_is_quiet(lake: Path) -> None:
    """While Python still loads what the command needs."""
    terminal = Terminal("runs", cwd=lake)
    terminal.wait_for("start")
    terminal.type(CTRL_C)
    assert terminal.end(20) == 130
    nothing_foreign(terminal.lines)
    assert terminal.raw.endswith(WIPE), "the shell's prompt would be followed by the rest of the line"
