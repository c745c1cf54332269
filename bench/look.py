"""`python -m bench.look CONFIG TABLES`: a catalog of so many tables, and looks at all of them as before a batch."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from datetime import timedelta

import lakewarden
from lakewarden.model.known_table import KnownTable
from lakewarden.model.plan import Plan, PlannedRoot
from lakewarden.model.policy import Job
from lakewarden.steps.apply.revalidate import Revalidation
from lakewarden.steps.observe.fleet import pointers_of

LOOKS = 20


def main(config: str, tables: str) -> None:
    with lakewarden.open(config) as warden:
        deployment = warden._deployment
        catalog = next(iter(deployment.formats.values()))
        properties = warden._settings.catalogs[catalog.name].properties
        place = str(properties["warehouse"])
        names = [f"t{number:06d}" for number in range(int(tables))]
        with sqlite3.connect(str(properties["uri"]).removeprefix("sqlite:///")) as database:
            database.executemany(
                "insert or ignore into iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, "
                "previous_metadata_location, iceberg_type) values (?, 'many', ?, ?, '', 'TABLE')",
                [(catalog.name, name, f"{place}/many/{name}/metadata/00001.metadata.json") for name in names],
            )
        now = deployment.clock.now()
        found = {name: pointer for name, (_, pointer) in pointers_of([catalog]).items()}
        deployment.ledger.known_tables.record(
            KnownTable(
                name, "", 10, 10_000, (), now, pointer.metadata_location, roots=(f"{place}/{name}/",), first_seen=now
            )
            for name, pointer in found.items()
        )
        plan = Plan(
            job=Job.ORPHAN_CLEANUP, created_at=now, expires_at=now + timedelta(hours=1), cutoff=now, actor=warden.actor(),
            tables=(), parts=(), pointers={name: pointer.metadata_location for name, pointer in found.items()},
            roots=tuple(PlannedRoot(f"{place}/many/{name}/", (f"{catalog.name}.many.{name}",)) for name in names),
        )  # fmt: skip
        looks = Revalidation(deployment, plan)
        taken = []
        for _ in range(LOOKS):
            began = time.perf_counter()
            looks.check()
            taken.append(time.perf_counter() - began)
        assert not looks.stopped, next(iter(looks.stopped.items()))
        print(json.dumps({"first": taken[:1], "later": taken[2:]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
