"""Our own commits say all that lineage asks for, and a table that asks for more is left alone by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import LineageError
from lakewarden.steps.plan.own_commits import OURS
from tests.formats.paimon import java
from tests.formats.paimon.site import Site as PaimonSite
from tests.jobs.compaction.test_paimon import create
from tests.jobs.snapshot_expiry.expiry_site import EXPIRY, Site, backdate
from tests.support.lakes import write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "compaction"
CODE = LineageError.code
pytestmark = pytest.mark.usefixtures("spark")


def test_tables_that_require_more_are_refused_and_a_ticket_may_come_later(tmp_path: Path, spark: SparkSession) -> None:
    rules = {
        "team": {"lineage.required-keys": "writer.id,team"},
        "appended": {"lineage.allowed-operations": "append, overwrite"},
        "ticketed": {"lineage.required-keys.replace": "trigger.ticket", "lineage.required-keys": ",".join(OURS)},
        "free": {},
    }
    with Site.on_sqlite(tmp_path) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        site.sections["lineage"] = {"required_keys": ["input.snapshot_ids"]}
        site.policies["lake.db.free"] = {"lineage": {"required_keys": []}}
        catalog = site.catalog()
        catalog.create_namespace("db")
        for name, properties in rules.items():
            write_table(catalog, f"db.{name}", appends=3, properties=properties)  # type: ignore[arg-type]
        plan = site.plan(JOB)
        assert {name: plan.refusal(f"lake.db.{name}") for name in rules} == {
            "team": CODE, "appended": CODE, "ticketed": None, "free": None,
        }  # fmt: skip
        assert "team is missing" in plan.message("lake.db.team")
        assert "operation replace is not allowed" in plan.message("lake.db.appended")

        without = site.apply(plan)
        assert [(one.uri, one.code) for one in without.failed] == [("lake.db.ticketed", CODE)]
        assert "trigger.ticket is missing" in without.failed[0].message
        assert without.changed["groups"] > 0

        done = site.apply(site.plan(JOB), actor=Actor("ada", "tester", Trigger.MANUAL, "LAKE-7"))
        assert done.status == "done"
        assert done.changed["groups"] > 0
        snapshot = catalog.load_table("db.ticketed").current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        said = snapshot.summary.additional_properties
        assert {*OURS, "trigger.ticket"} <= said.keys()
        assert said["trigger.ticket"] == "LAKE-7"


def test_a_run_without_a_snapshot_of_its_own_has_the_same_facts_on_record(tmp_path: Path) -> None:
    actor = Actor("ada", "tester", Trigger.INCIDENT_RESPONSE, "LAKE-7")
    with Site.on_sqlite(tmp_path) as site:
        catalog = site.catalog()
        catalog.create_namespace("db")
        table = write_table(catalog, "db.old", appends=3)
        backdate(table, int(site.clock.now().timestamp() * 1000))
        result = site.apply(site.plan(EXPIRY), actor=actor)
        assert result.changed["snapshots"] > 0
        started = [step for step in site.warden.run_detail(result.run_id)["steps"] if step["name"] == "started"]
    (said,) = [step["detail"]["lineage"] for step in started]
    assert said.keys() == {*OURS, "trigger.ticket"} - {
        "input.snapshot_ids",
        "input.row_count",
        "input.bytes_compressed",
    }
    assert (said["writer.invocation_id"], said["trigger.ticket"]) == (result.run_id, "LAKE-7")


def test_no_rule_is_in_the_way_of_a_job_that_makes_no_snapshot(tmp_path: Path) -> None:
    """Such a rule failed the plan of the whole fleet once."""
    rules = {"lineage.required-keys": "writer.id,team", "lineage.allowed-operations": "append"}
    with Site.on_sqlite(tmp_path) as site:
        catalog = site.catalog()
        catalog.create_namespace("db")
        table = write_table(catalog, "db.strict", appends=3, properties=rules)
        backdate(table, int(site.clock.now().timestamp() * 1000))
        plan = site.plan(EXPIRY)
        assert plan.refusal("lake.db.strict") is None
        result = site.apply(plan)
        assert (result.status, result.changed["snapshots"]) == ("done", 2)


def test_commits_to_paimon_tables_say_the_same(tmp_path: Path) -> None:
    location = create(tmp_path, "plain", {})
    for first in range(3):
        java.write(location, [(first, "a", "x")])
    with PaimonSite(tmp_path) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        result = site.run(JOB)
        assert (result.status, result.changed["groups"]) == ("done", 1)
        newest = max((location / "snapshot").glob("snapshot-*"), key=lambda one: int(one.name.partition("-")[2]))
        document = json.loads(newest.read_bytes())
        assert document["commitKind"] == "COMPACT"
        said = document["properties"]
        assert set(OURS) <= said.keys()
        assert (said["input.snapshot_ids"], said["input.row_count"]) == (str(document["id"] - 1), "3")
        assert said["input.bytes_compressed"] == said["lakewarden.bytes-removed"]
    with PaimonSite(tmp_path) as strict:
        strict.sections["lineage"] = {"allowed_operations": ["append"]}
        plan = strict.plan(JOB)
        assert plan.refusal("lake.db.plain") == CODE
        assert "operation compact is not allowed" in plan.message("lake.db.plain")
