"""The file for Spark's words: made for its user alone, pointed to by errors, and not one more than are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.pipeline.spark import log_file
from lakewarden.pipeline.spark.log_file import KEPT, spark_failed, taking_words


@pytest.fixture(autouse=True)
def _no_session() -> Iterator[None]:
    """What one test says of its log is not another's."""
    before = log_file._session.log
    yield
    log_file._session.log = before


def test_words_go_to_a_new_file_that_errors_name(tmp_path: Path) -> None:
    with taking_words(tmp_path / "state" / "logs") as out:
        assert not isinstance(out, int)
        out.write(b"WARN something\n")
    (log,) = (tmp_path / "state" / "logs").iterdir()
    assert log.read_bytes() == b"WARN something\n"
    assert log.stat().st_mode & 0o777 == 0o600
    error = spark_failed("Spark did not start")
    assert str(log) in error.hint
    error.after("Three files were deleted.")
    assert error.hint == f"Three files were deleted. See the message, and Spark's log: {log}"


def test_with_verbose_they_go_to_stderr_and_errors_name_no_file() -> None:
    with taking_words(None) as out:
        assert out == 2
    assert "Spark's log:" not in spark_failed("Spark did not start").hint


def test_the_newest_are_kept_and_nothing_else_is_touched(tmp_path: Path) -> None:
    names = [f"spark-20261118T0500{number:02}Z-{number}.log" for number in range(KEPT + 5)]
    for age, name in enumerate(reversed(names)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    (tmp_path / "spark-mine.log").write_text("")
    os.utime(tmp_path / "spark-mine.log", (0, 0))
    with taking_words(tmp_path):
        pass
    left = {path.name for path in tmp_path.iterdir()} - {"spark-mine.log"}
    assert left > set(names[5:])
    assert len(left) == KEPT + 1


def test_a_directory_that_cannot_be_made_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").write_text("no directory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with taking_words(tmp_path / "state" / "logs") as out:
        assert not isinstance(out, int)
        out.write(b"x")
    assert [path.name[:17] for path in tmp_path.iterdir() if path.suffix == ".log"] == ["lakewarden-spark-"]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with taking_words(tmp_path / "state" / "logs") as out:
        assert not isinstance(out, int)
        out.write(b"x")
