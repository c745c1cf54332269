"""What is asked of executors before any work, and what is said of their answers. The cluster itself: test_cluster.py."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from lakewarden.model.errors import (
    DiskNotSharedError,
    LakewardenError,
    RootNotSeenError,
    SilentMasterError,
    SparkFailedError,
    StoreNotReachedError,
    WorkerLacksLakewardenError,
    WorkerPythonError,
)
from lakewarden.pipeline.spark.complaints import failed, judge
from lakewarden.pipeline.spark.masters import refuse_silent
from lakewarden.pipeline.spark.preflight import Cluster
from lakewarden.pipeline.spark.probe import Asked, Question, Told, own_version, probe
from lakewarden.steps.in_spark import seeing
from lakewarden.storage.scratch import temporary_name
from lakewarden.storage.stores import Stores

CONTEXT: Any = SimpleNamespace(
    pythonExec="./env/bin/python", getConf=lambda: SimpleNamespace(get=lambda _, other: other)
)
LOST = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 "
    "(TID 3) (10.0.0.5 executor 1): "
)


def question(**asked: Any) -> Question:
    return replace(Question(own_version(), (), (), (), pickle.dumps(Stores())), **asked)


def told_by(asked: Question) -> Told:
    # As it travels: by value, into a process that knows nothing of ours.
    step = pickle.loads(cloudpickle.dumps(probe(asked)))
    (answer,) = step(iter(()))
    return Told(**answer)


def test_an_executor_like_this_process_lacks_nothing(tmp_path: Path) -> None:
    asked = Asked(written=(f"file://{tmp_path}/state/",), read=(f"file://{tmp_path}/",))
    with asked.prepared(Stores()) as prepared:
        told = told_by(prepared)
        assert prepared.files
        judge([told], asked)
    assert not list(tmp_path.iterdir()), "nothing is left of the question"


WITHOUT_LAKEWARDEN = """
import pickle, sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "lakewarden":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Absent())
(told,) = pickle.loads(sys.stdin.buffer.read())(iter(()))
print(told["lacking"], told["python"])
"""


def test_an_executor_without_lakewarden_can_still_answer() -> None:
    data = cloudpickle.dumps(probe(question()))
    done = subprocess.run([sys.executable, "-c", WITHOUT_LAKEWARDEN], input=data, capture_output=True, check=True)
    assert done.stdout.decode() == f"ModuleNotFoundError: No module named 'lakewarden' {sys.executable}\n"


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        (Told("node7", "/opt/python", None, "ModuleNotFoundError: No module named 'lakewarden'"),
         WorkerLacksLakewardenError, ["/opt/python on node7", "No module named 'lakewarden'"]),
        (Told("node7", "/opt/python", "0.0.1"), WorkerLacksLakewardenError, ["lakewarden 0.0.1", own_version(), "node7"]),
        (Told("node7", "/opt/python", own_version(), unseen=[f"/state/{temporary_name()}"]),
         DiskNotSharedError, ["node7", "file:///state/plans/", "looked for in /state"]),
        (Told("node7", "/opt/python", own_version(), unseen=["/lake/orders"]), RootNotSeenError, ["node7", "/lake/orders"]),
        (Told("node7", "/opt/python", own_version(), unreachable=[("s3://lake/orders/", "StoreUnavailableError: refused")]),
         StoreNotReachedError, ["node7", "s3://lake/orders/", "refused"]),
    ],
)  # fmt: skip
def test_what_an_executor_lacks_is_named(told: Told, error: type[LakewardenError], words: Sequence[str]) -> None:
    asked = Asked(written=("file:///state/plans/", "s3://state/"))
    fine = Told("node6", "/opt/python", own_version())
    with pytest.raises(error) as refused:
        judge([fine, told], asked)
    assert all(word in refused.value.message for word in words), refused.value.message
    judge([fine], asked)


def test_directories_and_stores_are_looked_at(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    told = told_by(question(directories=(str(tmp_path), gone), places=("s3://nobody/lake/",)))
    assert told.unseen == [gone]


def test_a_store_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = {
            "endpoint": f"http://127.0.0.1:{taken.getsockname()[1]}",
            "access_key_id": "a",
            "secret_access_key": "b",
        }
        stores = Stores({"s3://lake": nowhere | {"region": "us-east-1", "allow_http": "true"}})
        told = told_by(question(places=("s3://lake/orders/",), stores=pickle.dumps(stores)))
    ((place, why),) = told.unreachable
    assert place == "s3://lake/orders/"
    assert "StoreUnavailableError" in why


def test_another_version_is_not_asked_for_stores() -> None:
    told = told_by(question(version="0.0.1", places=("s3://nobody/",), stores=b"not to be unpacked"))
    assert (told.version, told.lacking, told.unreachable) == (own_version(), None, [])


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ('java.io.IOException: Cannot run program "./env/bin/python": error=2, No such file or directory\n\tat java(X)',
         WorkerPythonError, ["10.0.0.5", "./env/bin/python"]),
        ("pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
         "version: 3.9 than that in driver: 3.11", WorkerPythonError, ["10.0.0.5", "3.9", "3.11"]),
        ("java.io.EOFException: EOFException occurred while reading the port number from x.daemon's stdout",
         WorkerLacksLakewardenError, ["10.0.0.5", "daemon"]),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat org.apache.Spark(X.scala:1)",
         SparkFailedError, ["10.0.0.5", "OutOfMemoryError"]),
    ],
)  # fmt: skip
def test_a_probe_that_did_not_end_names_the_machine(
    said: str, error: type[LakewardenError], words: Sequence[str]
) -> None:
    found = failed(RuntimeError(LOST + said), CONTEXT)
    assert type(found) is error
    assert all(word in found.message for word in words), found.message
    assert "\n" not in found.message
    assert "nothing was done" in found.message


def test_a_master_at_which_nobody_listens_is_named_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SilentMasterError, match=address):
            refuse_silent(f"spark://{address},{address}")
        taken.listen()
        refuse_silent(f"spark://127.0.0.1:1,{address}")
    refuse_silent("yarn")
    refuse_silent("local[2]")


def test_no_directory_is_made_for_the_question(tmp_path: Path) -> None:
    with Asked(written=(f"file://{tmp_path}/a/b/",)).prepared(Stores()) as prepared:
        (path,) = prepared.files
        assert os.path.dirname(path) == str(tmp_path)
        assert not (tmp_path / "a").exists()


def test_whoever_comes_by_the_session_twice_asks_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []
    monkeypatch.setattr(Cluster, "check", lambda _, stores, question: asked.append(question))
    session: Future[Any] = Future()
    session.set_result("the session")
    come_by = seeing(session, Stores(), (place for place in ("s3://b/", "s3://a/")))
    assert (come_by(), come_by()) == ("the session", "the session")
    assert asked == [Asked(read=("s3://a/", "s3://b/"))] * 2
