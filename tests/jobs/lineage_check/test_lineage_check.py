"""lineage-check on real tables of both formats: what breaks the rules is named, counted and put on record, and nothing changes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory, Schema

import lakewarden
from lakewarden.cli.main import main
from tests.jobs.snapshot_expiry.expiry_site import Site, files_below
from tests.support.configuration import write_toml
from tests.support.lakes import write_table

JOB = "lineage-check"
ROWS = pa.table({"id": pa.array([1], pa.int64())})


def test_what_broke_the_rules_is_named_once_as_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = lakewarden.lineage("ingest-1")
    with Site.on_sqlite(tmp_path) as site:
        site.sections["lineage"] = {"required_keys": ["writer.id"], "required_keys_for": {"delete": ["trigger.ticket"]}}
        catalog = site.catalog()
        catalog.create_namespace("db")
        table = write_table(catalog, "db.orders", appends=2)
        rows = table.scan().to_arrow().slice(0, 1)
        table.append(rows, snapshot_properties=said.properties())
        free = catalog.create_table("db.free", ROWS.schema, properties={"lineage.required-keys": ""})
        free.append(ROWS)
        before = files_below(tmp_path / "warehouse")

        plan = site.plan(JOB)
        assert plan.plan.totals()["changes"] == {"violations": 2}
        found = plan.table("lake.db.orders").detail
        assert (found["snapshots"], found["violations"], found["new"]) == (3, 2, 2)
        assert found["lacks"] == {"writer.id is missing": 2}
        assert plan.table("lake.db.free").changes == {"violations": 0}

        result = site.run(JOB)
        assert (result.status, dict(result.changed), int(result.exit_code)) == ("done", {"violations": 2}, 0)
        steps = site.warden.run_detail(result.run_id)["steps"]
        assert [step["detail"]["violations"] for step in steps if step["name"] == "checked"] == [2]

        page = tmp_path / "report.html"
        site.warden.report(str(page), with_forecast=False)
        shown = page.read_text().partition('id="unsaid"')[2].partition("</section>")[0]
        assert "lake.db.orders" in shown
        assert "writer.id is missing" in shown
        assert "lake.db.free" not in shown, "it breaks no rule"

        table.append(rows)
        again = site.plan(JOB).table("lake.db.orders").detail
        assert (again["violations"], again["new"]) == (3, 1)
        assert files_below(tmp_path / "warehouse") >= before
        config = site.config()
        assert main(["plan", JOB, "--config", config]) == 0
        out = capsys.readouterr().out
        assert "3 of 4 snapshots, 1 new" in out
        assert f"{table.refresh().current_snapshot().snapshot_id}" in out  # type: ignore[union-attr]
        assert "writer.id is missing" in out


def test_paimon_tables_are_held_to_the_same_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = CatalogFactory.create({"warehouse": f"file://{tmp_path}/lake"})
    catalog.create_database("db", True)
    catalog.create_table("db.events", Schema.from_pyarrow_schema(ROWS.schema, options={"bucket": "-1"}), False)
    table = catalog.get_table("db.events")
    for _ in range(2):
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(ROWS)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
    config = tmp_path / "lakewarden.toml"
    write_toml(
        config,
        {
            "state": {"location": f"file://{tmp_path}/state"},
            "catalogs": {"stream": {"format": "paimon", "properties": {"warehouse": f"file://{tmp_path}/lake"}}},
            "lineage": {"allowed_operations": ["overwrite"]},
        },
    )
    assert main(["plan", JOB, "--config", str(config), "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["tables"]
    assert found["changes"] == {"violations": 2}
    assert found["detail"]["lacks"] == {"operation append is not allowed (allowed: overwrite)": 2}
    assert next(iter(found["detail"]["writers"])).startswith("commit.user ")
