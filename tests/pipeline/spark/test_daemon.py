"""The daemon that workers are forked from: what it spares every task."""

from __future__ import annotations

import importlib
import sys
import zipimport
from pathlib import Path
from zipfile import ZipFile

import pytest

from lakewarden.pipeline.settled import read_archives_once
from lakewarden.pipeline.spark.daemon import import_ahead
from lakewarden.pipeline.spark.session import MODULES


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An archive on Python's path, looked into as Spark's own is before the first task."""
    place = str(tmp_path / "modules.zip")
    with ZipFile(place, "w") as packed:
        packed.writestr("archived_before.py", "word = 'before'\n")
        packed.writestr("archived_after.py", "word = 'after'\n")
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for name in ("archived_before", "archived_after"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(place)
    assert importlib.import_module("archived_before").word == "before"
    return place


def test_an_archive_is_not_read_again_before_every_task(archive: str) -> None:
    contents = zipimport._zip_directory_cache[archive]
    read_archives_once()
    assert importlib.import_module("archived_after").word == "after"
    importlib.invalidate_caches()
    assert zipimport._zip_directory_cache[archive] is contents


def test_without_it_every_task_reads_the_archive(archive: str) -> None:
    contents = zipimport._zip_directory_cache[archive]
    importlib.invalidate_caches()
    sys.path_importer_cache[archive].find_spec("archived_after")
    assert zipimport._zip_directory_cache[archive] is not contents


def test_a_jar_of_the_session_is_never_looked_into(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = archive.replace("modules.zip", "runtime.jar")
    Path(archive).rename(jar)
    monkeypatch.syspath_prepend(jar)
    read_archives_once()
    with pytest.raises(ImportError):
        importlib.import_module("archived_after")
    assert jar not in zipimport._zip_directory_cache


def test_what_tasks_name_is_imported_before_a_worker_is_forked(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODULES, "nothing_of_that_name,archived_after")
    import_ahead()
    assert sys.modules["archived_after"].word == "after"
