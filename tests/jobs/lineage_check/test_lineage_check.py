"""lineage-check on real tables of both formats: what breaks the rules is named, counted and put on record, and nothing changes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory, Schema

import lakewarden
from lakewarden.cli.main import main
from tests.jobs.snapshot_expiry.expiry_site import Site, document_of, edit, files_below
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


def test_a_check_of_one_table_leaves_what_is_new_of_the_others_new(tmp_path: Path) -> None:
    """Somebody checks one table by hand in the evening: at night the others' violations of the day are still news."""
    with Site.on_sqlite(tmp_path) as site:
        site.sections["lineage"] = {"required_keys": ["writer.id"]}
        catalog = site.catalog()
        catalog.create_namespace("db")
        tables = [catalog.create_table(f"db.{name}", ROWS.schema) for name in ("a", "b")]
        for table in tables:
            table.append(ROWS)
        assert site.run(JOB).changed == {"violations": 2}
        for table in tables:
            table.append(ROWS)
        assert site.run(JOB, "lake.db.a").changed == {"violations": 2}
        plan = site.plan(JOB)
        assert plan.table("db.a").detail["new"] == 0
        assert plan.table("db.b").detail["new"] == 1


def test_an_iceberg_commit_of_another_formats_word_has_every_operations_keys(tmp_path: Path) -> None:
    with Site.on_sqlite(tmp_path) as site:
        site.sections["lineage"] = {"required_keys_for": {"overwrite": ["trigger.ticket"]}}
        catalog = site.catalog()
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", ROWS.schema)
        table.append(ROWS)
        document = document_of(table)
        for word, violations in (("append", 0), ("compact", 1)):
            document["snapshots"][0]["summary"]["operation"] = word
            edit(table, document)
            assert site.plan(JOB).table("db.t").changes == {"violations": violations}


def test_snapshots_without_a_summary_and_with_values_that_are_no_text(tmp_path: Path) -> None:
    """Tables of the first version have no summary; and a writer may put anything into one."""
    with Site.on_sqlite(tmp_path) as site:
        site.sections["lineage"] = {"required_keys": ["writer.id"]}
        catalog = site.catalog()
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "1"})
        for _ in range(3):
            table.append(ROWS)
        document = document_of(table)
        del document["snapshots"][0]["summary"]
        document["snapshots"][1]["summary"] = {"operation": "append", "writer.id": None}
        document["snapshots"][2]["summary"] = {"operation": "append", "writer.id": 7}
        edit(table, document)
        found = site.plan(JOB).table("db.t")
        assert found.refusal is None
        assert found.changes == {"violations": 2}
        assert [one["snapshot_id"] for one in found.detail["named"]] == [
            document["snapshots"][place]["snapshot-id"] for place in (1, 0)
        ]


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
