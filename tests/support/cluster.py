"""A real standalone cluster: a master and two workers of one core, if asked for with nothing in common with the driver.

Strangers among workers run from a Python environment of their own, in a mount namespace in which the driver's
directories are empty: no file that the driver sees is there for them, but for the machine's own.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from tests.support.processes import ends_with_us

HOST = "127.0.0.1"
WORKERS = 2
CLASSES = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"
CHECKOUT = Path(__file__).parents[2]
START_SECONDS = 90


@dataclass(frozen=True)
class Environment:
    """A Python environment that workers run from: its interpreter, and the Spark and Java in it."""

    python: Path
    spark_home: Path
    java_home: str | None


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    master: str
    environment: Environment
    processes: Sequence[subprocess.Popen[bytes]]

    def executors(self) -> list[psutil.Process]:
        """The JVMs of executors that have begun to run tasks in Python."""
        found = []
        for worker in self.processes:
            for child in psutil.Process(worker.pid).children(recursive=True):
                try:
                    if EXECUTOR in " ".join(child.cmdline()) and child.name() == "java" and child.children():
                        found.append(child)
                except psutil.NoSuchProcess:
                    continue
        return found


def this_environment() -> Environment:
    return Environment(Path(sys.executable), Path(pyspark.__file__).parent, os.environ.get("JAVA_HOME"))


def another_environment(base: Path) -> Environment:
    """The same packages at another place, as files of its own, with Lakewarden installed and not linked to a checkout."""
    home = base / "environment"
    subprocess.run([getattr(sys, "_base_executable", sys.executable), "-m", "venv", "--without-pip", home], check=True)
    there = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    here = Path(sysconfig.get_path("purelib"))
    # Linked where the disk is the same: half a gigabyte is not copied for a test.
    copied = subprocess.run(["cp", "-al", f"{here}/.", there], capture_output=True, check=False)
    if copied.returncode:
        subprocess.run(["cp", "-a", f"{here}/.", there], check=True)
    for linked in (*there.glob("__editable__*lakewarden*"), *there.glob("_lakewarden*"), *there.glob("lakewarden*")):
        shutil.rmtree(linked) if linked.is_dir() else linked.unlink()
    shutil.copytree(CHECKOUT / "src" / "lakewarden", there / "lakewarden")
    python = home / "bin" / "python"
    java = os.environ.get("JAVA_HOME")
    if java is not None and Path(java).is_relative_to(sys.prefix):
        java = str(home / "java")
        subprocess.run([python, "-m", "lakewarden.pipeline.spark.java", java], check=True)
    return Environment(python, there / "pyspark", java)


def why_no_namespace() -> str | None:
    """Why this machine lets nobody hide directories from a process; None where it does."""
    done = subprocess.run([*_namespace(), "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no mount namespace can be made here: {done.stderr.strip()}"


def _namespace() -> list[str]:
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", "--propagation", "private", *own]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def standalone(base: Path, environment: Environment, hidden: Sequence[Path] = ()) -> Iterator[Cluster]:
    """A cluster whose logs and work lie in `base`; `hidden` directories are empty for its workers."""
    base.mkdir(parents=True, exist_ok=True)
    port = free_port()
    address = f"spark://{HOST}:{port}"
    env = os.environ | {
        "SPARK_HOME": str(environment.spark_home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_NO_DAEMONIZE": "1",
        **({"JAVA_HOME": environment.java_home} if environment.java_home else {}),
    }
    # What the driver is told by variables, workers are not.
    for name in ("PYSPARK_PYTHON", "PYTHONPATH", "VIRTUAL_ENV"):
        env.pop(name, None)
    with ExitStack() as stack:

        def start(name: str, words: Sequence[str], places: Sequence[Path] = ()) -> subprocess.Popen[bytes]:
            log = stack.enter_context((base / f"{name}.log").open("wb"))
            command = [str(environment.spark_home / "bin" / "spark-class"), *words]
            if places:
                mounts = "; ".join(f"mount -t tmpfs tmpfs {shlex.quote(str(place))}" for place in places)
                command = [*_namespace(), "bash", "-ec", f"{mounts}; exec {shlex.join(command)}"]
            process = subprocess.Popen(
                command, env=env, cwd=base, stdout=log, stderr=subprocess.STDOUT, preexec_fn=ends_with_us()
            )
            stack.callback(_stop, process)
            return process

        web = str(free_port())
        start("master", [f"{CLASSES}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", web])
        workers = []
        for number in range(WORKERS):
            place = ["--work-dir", str(base / f"work{number}"), "--webui-port", str(free_port())]
            size = ["--host", HOST, "--cores", "1", "--memory", "1g"]
            workers.append(start(f"worker{number}", [f"{CLASSES}.worker.Worker", *size, *place, address], hidden))
        _wait_for_workers(base)
        yield Cluster(address, environment, workers)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The process, and its executors with it."""
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait(30)


def _wait_for_workers(logs: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        said = [path.read_text(errors="replace") for path in logs.glob("worker*.log")]
        if len(said) == WORKERS and all("Successfully registered with master" in text for text in said):
            return
        time.sleep(0.2)
    raise AssertionError("the workers did not register: " + "\n".join(text[-500:] for text in said))
