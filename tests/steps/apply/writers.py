"""A writer that never rests, and the promise that nothing it ever committed is lost."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import Table

from tests.support.lakes import age, append, plant_orphans
from tests.support.worlds import World, reachable


@dataclass
class Writer:
    """Commits to one table in a thread: append, overwrite, delete, tag, branch, roll back, expire.

    After each commit it notes every file that the committed state reaches, and makes data and manifests look a month
    old: from then on nothing but reachability protects them. metadata.json keeps its age, as the proof of how lately
    a state was current.
    """

    world: World
    name: str
    seed: int = 1
    committed: set[Path] = field(default_factory=set)
    commits: int = 0
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def lost(self) -> set[Path]:
        return {path for path in set(self.committed) if not path.exists()}

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                self._step(self.world.table(self.name))
                table = self.world.table(self.name)
                files = set(reachable(table))
                age(path for path in files if not path.name.endswith(".metadata.json"))
                self.committed |= files
                self.commits += 1
                if self.commits % 5 == 0:
                    table.scan().to_arrow()
        except BaseException as error:
            self.failure = error

    def _step(self, table: Table) -> None:
        snapshots = table.metadata.snapshots
        some = self._draw.choice(snapshots).snapshot_id
        step = self._draw.choice(["append", "append", "overwrite", "delete", "tag", "branch", "rollback", "expire"])
        first = self.commits * 10
        if step == "append":
            append(table, first)
        elif step == "overwrite":
            table.overwrite(pa.table({"id": pa.array([first, first + 1], pa.int64()), "part": ["a", "b"]}))
        elif step == "delete":
            table.delete(f"id == {self._draw.randrange(first + 1)}")
        elif step == "tag":
            table.manage_snapshots().create_tag(some, f"tag-{self.commits}").commit()
        elif step == "branch":
            table.manage_snapshots().create_branch(some, f"branch-{self.commits}").commit()
        elif step == "rollback":
            current = table.current_snapshot()
            ancestor = current.parent_snapshot_id if current else None
            if ancestor is not None and any(s.snapshot_id == ancestor for s in snapshots):
                table.manage_snapshots().rollback_to_snapshot(ancestor).commit()
        elif len(snapshots) > 6:
            held = {ref.snapshot_id for ref in table.metadata.refs.values()}
            loose = [snapshot.snapshot_id for snapshot in snapshots if snapshot.snapshot_id not in held]
            if loose:
                table.maintenance.expire_snapshots().by_id(loose[0]).commit()


def clean_while_writing(world: World, seconds: float, seed: int = 1) -> tuple[int, int]:
    """Plan and apply over and over beside a writer, and once more when it rests; the numbers of commits and deletions."""
    deleted = 0
    name = world.lake.tables[0]
    with Writer(world, name, seed) as writer:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            deleted += _clean(world, plant_orphans(world.table(name).location()))
            assert writer.failure is None, repr(writer.failure)
            assert not writer.lost(), sorted(writer.lost())[:3]
    planted = plant_orphans(world.table(name).location())
    deleted += _clean(world, planted)
    assert writer.failure is None, repr(writer.failure)
    assert not writer.lost(), sorted(writer.lost())[:3]
    assert not any(path.exists() for path in planted)
    world.rows()
    assert world.warden.audit_verify()["ok"]
    return writer.commits, deleted


def _clean(world: World, planted: list[Path]) -> int:
    """One plan and its apply. A table that moved too fast may be refused; then nothing of it goes, and that is safe."""
    plan = world.plan()
    if any(table.refusal for table in plan.plan.tables):
        assert all(path.exists() for path in planted)
        return 0
    return world.apply(plan).deleted.files
