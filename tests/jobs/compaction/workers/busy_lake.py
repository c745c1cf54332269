"""A lake that writers change and workers compact at the same time, and what has to be true of it afterwards."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ServiceUnavailableError,
    ValidationException,
)
from pyiceberg.expressions import EqualTo, In
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.ledger.statuses import WASTED
from lakewarden.model.compaction import GROUP_LEFT
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.configuration import write_toml

COLUMNS = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "part", StringType()), NestedField(3, "text", StringType())
)
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
PARTS = ("a", "b", "c")
LEASE_SECONDS = 6
ROWS = 40
# A stopped worker's leases can be taken after their time and a tenth; it is woken when somebody surely has.
PAUSE = LEASE_SECONDS * 1.1 + 3
# What a row is after a commit; None is no row.
Row = tuple[str, str] | None


@dataclass
class Writer:
    """Writes rows of its own to one table, and knows which of them must be there."""

    catalog: Catalog
    table: str
    number: int
    draw: random.Random
    rows: dict[int, tuple[str, str]] = field(default_factory=dict)
    acts: Counter[str] = field(default_factory=Counter)

    def append(self) -> None:
        part = self.draw.choice(PARTS)
        first = self.number * 10**6 + self.acts["append"] * ROWS
        new = {first + n: (part, f"text {self.draw.random()}") for n in range(ROWS)}
        self._commit(lambda table: table.append(_table(new)), new)
        self.rows |= new
        self.acts["append"] += 1

    def delete(self) -> None:
        gone = self.draw.choice(sorted(self.rows))
        self._commit(lambda table: table.delete(EqualTo("id", gone)), {gone: None})
        del self.rows[gone]
        self.acts["delete"] += 1

    def upsert(self) -> None:
        """One row is written anew, in the partition it was in or in another one."""
        chosen = self.draw.choice(sorted(self.rows))
        new = {chosen: (self.draw.choice(PARTS), f"again {self.draw.random()}")}
        self._commit(lambda table: table.overwrite(_table(new), EqualTo("id", chosen)), new)
        self.rows |= new
        self.acts["upsert"] += 1

    def act(self) -> None:
        chance = self.draw.random()
        if chance < 0.9 or not self.rows:
            self.append()
        elif chance < 0.95:
            self.delete()
        else:
            self.upsert()

    def _commit(self, change: Any, after: Mapping[int, Row]) -> None:
        """Each try is made on the table as it is then: PyIceberg refuses a delete whose files were compacted meanwhile."""
        for _ in range(200):
            try:
                change(self.catalog.load_table(self.table))
                return
            except (CommitFailedException, ServiceUnavailableError, ValidationException):
                self.acts["overtaken"] += 1
            except CommitStateUnknownException as error:
                if self.landed(after, error):
                    return
            time.sleep(self.draw.uniform(0, 0.1))
        raise AssertionError(f"{self.table} could not be written to")

    def landed(self, after: Mapping[int, Row], error: BaseException) -> bool:
        """Whether a commit of this writer landed that the catalog answered with an error of its own.

        Nobody else writes these rows, so what they are tells it. The REST catalog of the tests keeps its pointers in one
        SQLite database, which turns a client away that another one is in the way of.
        """
        self.acts["unclear"] += 1
        print(f"{self.table}: {str(error)[:1000]}", file=sys.stderr)
        rows = self.catalog.load_table(self.table).scan(In("id", list(after))).to_arrow().to_pylist()
        found = {row["id"]: (row["part"], row["text"]) for row in rows}
        return all(found.get(number) == row for number, row in after.items())


def _table(rows: dict[int, tuple[str, str]]) -> pa.Table:
    parts, texts = zip(*rows.values(), strict=True)
    return pa.table({"id": pa.array(list(rows), pa.int64()), "part": list(parts), "text": list(texts)})


@dataclass
class BusyLake:
    """Tables of one catalog, their writers, and worker processes."""

    base: Path
    site: Site
    catalog: str
    client: Any
    bucket: str
    tables: tuple[str, ...] = ("t.one", "t.two")
    seed: int = 1
    writers: list[Writer] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    failed: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        catalog = self.open()
        catalog.create_namespace("t")
        for number, name in enumerate(self.tables):
            catalog.create_table(name, COLUMNS, partition_spec=BY_PART)
            self.writers.append(Writer(self.open(), name, number, random.Random(self.seed + number)))
        for writer in self.writers:
            for _ in range(6):
                writer.append()

    def open(self) -> Catalog:
        return load_catalog(self.catalog, **self.site.catalogs[self.catalog])

    def start(self, count: int) -> None:
        for number in range(len(self.workers), len(self.workers) + count):
            document = tomllib.loads(Path(self.site.config()).read_text(encoding="utf-8"))
            document["worker"]["id"] = f"worker-{number}"
            document["spark"] = {"master": "local[1]", "conf": {"spark.ui.enabled": "false"}}
            config = write_toml(self.base / f"worker-{number}.toml", document)
            self.workers.append(Worker(number, str(config), self.base))
        for worker in self.workers:
            worker.start()

    def write(self, seconds: float, pause: float) -> None:
        """Every writer at work for so long."""
        over = threading.Event()
        threading.Timer(seconds, over.set).start()
        self.write_until(over, pause)

    def write_until(self, over: threading.Event, pause: float) -> None:
        def work(writer: Writer) -> None:
            try:
                while not over.wait(pause):
                    writer.act()
            except BaseException as error:
                self.failed.append(error)

        threads = [threading.Thread(target=work, args=(writer,)) for writer in self.writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stop(self) -> None:
        """Let every worker end the command that it is at."""
        for worker in self.workers:
            worker.stop.touch()
        for worker in self.workers:
            worker.ended()

    def check_rows(self) -> None:
        """What the writers know of is there, and nothing else."""
        assert not self.failed
        catalog = self.open()
        for name in self.tables:
            found = catalog.load_table(name).scan().to_arrow().to_pylist()
            expected = {
                number: row for writer in self.writers if writer.table == name for number, row in writer.rows.items()
            }
            assert len(found) == len(expected), name
            assert {row["id"]: (row["part"], row["text"]) for row in found} == expected, name

    def summaries(self) -> list[dict[str, Any]]:
        """Of every commit that workers made."""
        catalog, found = self.open(), []
        for name in self.tables:
            for snapshot in catalog.load_table(name).metadata.snapshots:
                summary = snapshot.summary
                if summary is not None and summary.additional_properties.get("lakewarden.job") == "compaction":
                    found.append({"table": name, **summary.additional_properties})
        return found

    def check_commits(self) -> Counter[str]:
        """No group landed twice, and no lease was committed under twice. How many groups each worker landed."""
        groups: Counter[tuple[str, str]] = Counter()
        leases: Counter[tuple[str, str]] = Counter()
        by: Counter[str] = Counter()
        for summary in self.summaries():
            names = summary["lakewarden.groups"].split(",")
            groups.update((summary["table"], name) for name in names)
            keys, epochs = (summary[f"lakewarden.lease-{what}"].split(",") for what in ("key", "epoch"))
            leases.update(zip(keys, epochs, strict=True))
            by[summary["writer.id"]] += len(names)
        assert set(groups.values()) == {1}, [worker.runs() for worker in self.workers]
        assert set(leases.values()) == {1}
        return by

    def wasted(self) -> tuple[int, int]:
        """Bytes that workers wrote and no commit names, deleted since or not; and all that they wrote."""
        used = 0
        for summary in self.summaries():
            used += int(summary.get("added-files-size", 0))
        runs = self._runs()
        gone = sum(int(step["bytes"]) for step in self._steps(WASTED) if step["deleted"])
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        there = [(item["Key"].rpartition("/")[2], item["Size"]) for page in pages for item in page.get("Contents", ())]
        ours = sum(size for name, size in there if name.endswith(".parquet") and name.partition("-")[0] in runs)
        return ours - used + gone, ours + gone

    def left(self) -> Counter[str]:
        """Why groups were left as they are, each reason once for all files."""
        whys = (str(step["why"]) for step in self._steps(GROUP_LEFT))
        return Counter(re.sub(r"\S+\.parquet|\d+ files|worker-\d|\S*compaction/\S+|\d+", "…", why)[:70] for why in whys)

    def _runs(self) -> set[str]:
        ledger = self.site.warden._deployment.ledger
        return {run.run_id for run in ledger.runs.list(100_000) if run.job == "compaction"}

    def _steps(self, name: str) -> list[Any]:
        ledger = self.site.warden._deployment.ledger
        return [step.detail for run in self._runs() for step in ledger.runs.steps(run) if step.name == name]

    def live_files(self) -> int:
        catalog = self.open()
        return sum(len(catalog.load_table(name).inspect.data_files()) for name in self.tables)


@dataclass
class Worker:
    """One worker process after the other, under one name."""

    number: int
    config: str
    base: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def stop(self) -> Path:
        return self.base / f"stop-{self.number}"

    @property
    def said(self) -> Path:
        return self.base / f"worker-{self.number}.out"

    def start(self) -> None:
        command = [sys.executable, "-m", f"{__package__}.worker", self.config, str(self.stop), str(LEASE_SECONDS)]
        with self.said.open("ab") as out, self.said.with_suffix(".err").open("ab") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)

    def runs(self) -> list[dict[str, Any]]:
        lines = self.said.read_text(encoding="utf-8").splitlines() if self.said.exists() else []
        return [json.loads(line) for line in lines]

    def at_work(self, seconds: float = 90) -> None:
        """Wait until the process has ended a command more."""
        before, end = len(self.runs()), time.monotonic() + seconds
        while len(self.runs()) == before:
            assert self.process is not None
            assert self.process.poll() is None, self.said.with_suffix(".err").read_text(encoding="utf-8")[-3000:]
            assert time.monotonic() < end, "it does nothing"
            time.sleep(0.05)

    def kill(self) -> None:
        """The process and everything that it started."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def pause(self, seconds: float = PAUSE) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def ended(self) -> None:
        assert self.process is not None
        try:
            code = self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert code == 0, self.said.with_suffix(".err").read_text(encoding="utf-8")[-3000:]

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
