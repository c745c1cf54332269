"""Which Java Spark would start, and what is said where that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.model.errors import JavaMissingError
from lakewarden.pipeline.spark import java


@pytest.fixture(autouse=True)
def nothing_packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def an_executable(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def refusal() -> str:
    with pytest.raises(JavaMissingError) as refused:
        java.use_java()
    return refused.value.message


def test_a_java_home_that_holds_none_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It hides the Java of the path, from Spark's own scripts too."""
    an_executable(tmp_path / "bin" / "java", """echo 'openjdk version "21.0.1"' >&2""")
    assert java.machine_has_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert f": JAVA_HOME is set, and {tmp_path}/gone/bin/java is not there; nothing was planned" in refusal()


@pytest.mark.parametrize(
    ("says", "told"), [("""echo 'version "11.0.2"' >&2""", "is Java 11"), ("exit 1", "does not run")]
)
def test_a_java_that_is_of_no_use_is_named(tmp_path: Path, says: str, told: str) -> None:
    found = an_executable(tmp_path / "bin" / "java", says)
    assert f": {found} {told}; " in refusal()


def test_where_there_is_none_at_all() -> None:
    assert "JAVA_HOME is not set, and the PATH has no java" in refusal()
