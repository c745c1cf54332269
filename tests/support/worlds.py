"""Worlds for the tests of applying: a small lake with planted orphans, its deployment, and the questions tests ask of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import lakewarden
from lakewarden.cli.main import main
from lakewarden.model.plan import PLAN_FILE, PartFile, Plan, PlannedRoot, TablePlan, Tally
from lakewarden.model.policy import OrphanPolicy
from lakewarden.model.ports import Shard
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.model.uri import canonical
from lakewarden.pipeline import columns as c
from lakewarden.steps.observe.fleet import load_fleet
from lakewarden.storage.listing import list_shard
from lakewarden.warden import Warden
from tests.support.deployments import Deployed
from tests.support.lakes import Lake, age, age_everything, contents, local_path, plant_orphans, small_lake

JOB = "orphan-cleanup"
Progress = Callable[[str, int, int], None]


@dataclass
class World:
    """A lake and the deployment that looks after it."""

    base: Path
    lake: Lake
    config: Path
    orphans: dict[str, list[Path]] = field(default_factory=dict)
    _warden: Warden | None = None

    @property
    def warden(self) -> Warden:
        if self._warden is None:
            self._warden = lakewarden.open(str(self.config))
        return self._warden

    def close(self) -> None:
        if self._warden is not None:
            self._warden.close()
            self._warden = None

    def catalog(self) -> SqlCatalog:
        return self.lake.catalog()

    def table(self, name: str | None = None) -> Table:
        return self.catalog().load_table(name or self.lake.tables[0])

    def plan(self, **asked: Any) -> PlanResult:
        return self.warden.plan(JOB, **asked)

    def apply(self, plan: PlanResult | str, **asked: Any) -> RunResult:
        return self.warden.apply(plan, **asked)

    def cli(self, *words: str, timeout: float = 120) -> tuple[int, dict[str, Any], str]:
        """A real `lakewarden` process: its exit code, its JSON, its words on stderr."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=timeout, check=False, env=environment()
        )
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}, done.stderr

    def exit_code(self, *words: str) -> int:
        """What the command line ends with, asked in this process."""
        return main([*words, "--config", str(self.config), "--output", "json"])

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "lakewarden", *words, "--config", str(self.config), "--output", "json"]

    def planted(self, *tables: str) -> set[Path]:
        """The orphans of these tables, or of all."""
        return {path for name in tables or tuple(self.orphans) for path in self.orphans[name]}

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table, read by PyIceberg."""
        catalog = self.catalog()
        return {name: contents(catalog.load_table(name)) for name in self.lake.tables if catalog.table_exists(name)}

    def on_disk(self) -> set[Path]:
        return {path for path in (self.base / "lake" / "warehouse").rglob("*") if path.is_file() and not _ours(path)}

    def needed(self) -> set[Path]:
        """Every file that any table needs now, by PyIceberg."""
        catalog = self.catalog()
        names = [".".join(name) for space in catalog.list_namespaces() for name in catalog.list_tables(space)]
        return {path for name in names for path in reachable(catalog.load_table(name))}

    def lost(self) -> set[Path]:
        return {path for path in self.needed() if not path.exists()}


def _ours(path: Path) -> bool:
    return ".lakewarden" in path.parts


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def make_world(
    base: Path,
    tables: Sequence[str] = ("sales.orders", "web.clicks"),
    *,
    orphans: int = 1,
    database: str = "sqlite",
    worker: str = "tester",
    **policy: Any,
) -> World:
    """A month-old lake with six kinds of orphans (times `orphans`) in each table, and its configuration."""
    lake = small_lake(base / "lake", tables)
    planted = {}
    catalog = lake.catalog()
    for name in tables:
        location = catalog.load_table(name).location()
        planted[name] = [path for _ in range(orphans) for path in plant_orphans(location)]
    age_everything(base / "lake" / "warehouse")
    config = write_config(base, lake.name, lake.properties, database=database, worker=worker, **policy)
    return World(base, lake, config, planted)


def write_config(
    base: Path,
    catalog: str,
    properties: dict[str, str],
    *,
    state: str | None = None,
    database: str = "sqlite",
    worker: str = "tester",
    name: str = "lakewarden.toml",
    **policy: Any,
) -> Path:
    """The configuration of one catalog with its policy of orphan cleanup."""
    sections = {"orphan_cleanup": {"max_orphan_share": 1.0, "rate_limit_ms": 0, **policy}}
    deployed = Deployed(
        base, {catalog: properties}, sections=sections, state=state or "", database=database, worker=worker
    )
    return Path(deployed.config(name))


def reachable(table: Table) -> Iterator[Path]:
    """What a table's current metadata needs: itself, and every snapshot's list, manifests and live files."""
    yield local_path(table.metadata_location)
    for snapshot in table.snapshots():
        yield local_path(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            yield local_path(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield local_path(entry.data_file.file_path)


def plant_rows(table: Table, name: str = "data/part=a/late-{}.parquet", first: int = 1000, part: str = "a") -> Path:
    """An orphan that holds good rows, a month old: a file that somebody may yet add to a table."""
    path = local_path(table.location()) / name.format(first)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array([first, first + 1], pa.int64()), "part": [part, part]}), path)
    age([path])
    return path


def at_batch(number: int, action: Callable[[], Any]) -> Progress:
    """A progress callback that acts once, when that many files have been worked on."""
    done = False

    def act(stage: str, reached: int, total: int) -> None:
        nonlocal done
        if stage in ("delete", "quarantine") and reached >= number and not done:
            done = True
            action()

    return act


def hand_plan(
    world: World,
    orphans: Iterable[Path | str] | None = None,
    *,
    verdict: str = "orphan",
    policy: Mapping[str, Any] | None = None,
    **header: Any,
) -> PlanResult:
    """A plan written by hand, as the planner would write it: these orphans, everything else live. Needs no Spark.

    What apply must do with a plan does not depend on who made it, and most tests here are about that alone.
    """
    deployment = world.warden._deployment
    now = deployment.clock.now()
    fleet = load_fleet(deployment, now - timedelta(hours=168))
    chosen = {canonical(str(name)) for name in (world.planted() if orphans is None else orphans)}
    rows = []
    for root in fleet.roots:
        for listed in list_shard(deployment.stores, Shard(root.id, root.prefix)):
            for row in listed.to_pylist():
                if row["key"] in chosen:
                    owner = next(claim.identifier for claim in fleet.claims if row["key"].startswith(claim.prefix))
                    judged = {"uri": row["key"], "table": owner, "verdict": verdict, "kind": "data"}
                    found = {
                        "root_id": root.id,
                        "reason": "by hand",
                        **{n: row[n] for n in ("size", "modified", "etag")},
                    }
                    rows.append(judged | found)
    assert len(rows) == len(chosen), "an orphan of the plan is not in the listing"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=c.PLAN_ROWS), sink)
    data = sink.getvalue().to_pybytes()
    directory = f"{deployment.state}plans/{deployment.new_id()}/"
    part = PartFile("files/part-0.parquet", hashlib.sha256(data).hexdigest(), len(rows), len(data))
    tables = []
    for state in fleet.states:
        mine = [row for row in rows if row["table"] == state.identifier]
        values = deployment.policy_for(
            JOB, state.identifier, state.properties, uuid=state.uuid, unsafe_short_grace=()
        ).values
        tables.append(
            TablePlan(
                state.identifier, state.uuid, state.format, state.metadata_location, state.refs,
                verdicts={verdict: Tally(len(mine), sum(row["size"] for row in mine))},
                changes={"files": len(mine)}, policy={**OrphanPolicy.of(values).as_values(), **(policy or {})},
            )
        )  # fmt: skip
    plan = Plan(
        **{
            "job": JOB, "created_at": now, "expires_at": now + timedelta(hours=24), "cutoff": now - timedelta(hours=168),
            "actor": world.warden.actor(), "tables": tuple(tables), "parts": (part,), "pointers": fleet.pointers,
            "digests": {state.identifier: state.digest for state in fleet.states if state.may_be_replaced},
            "roots": tuple(PlannedRoot(root.prefix, root.tables) for root in fleet.roots), **header,
        }
    ).sealed()  # fmt: skip
    deployment.stores.put(directory + part.name, data)
    deployment.stores.put(directory + PLAN_FILE, plan.dumps())
    deployment.ledger.plans.save(plan, directory)
    return PlanResult(plan, directory)


MakeWorld = Callable[..., World]


@pytest.fixture
def world_of(tmp_path: Path) -> Iterator[MakeWorld]:
    """Makes worlds of given tables and policy."""
    made: list[World] = []

    def make(*tables: str, **policy: Any) -> World:
        world = make_world(tmp_path / f"world{len(made)}", *([tables] if tables else []), **policy)
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(world_of: MakeWorld) -> World:
    """Two tables with six orphans each."""
    return world_of()
