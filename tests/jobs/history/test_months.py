"""The summary of a month: its sums are its detail's, to the last row, whatever was archived when and in however many files."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.metadata import known
from lakewarden.pipeline.history.monthly import TO_SUM, summed
from lakewarden.pipeline.history.rows import month_of, read_file
from tests.jobs.history.archived import HISTORY, ROWS, Site
from tests.jobs.snapshot_expiry.expiry_site import document_of, edit

pytestmark = pytest.mark.usefixtures("spark")

DAY_MS = 86_400_000
SNAPSHOTS = st.lists(
    st.fixed_dictionaries(
        {
            "uuid": st.sampled_from(["a", "b"]),
            "snapshot_id": st.integers(-(2**63), 2**63 - 1),
            "committed_ms": st.integers(0, 400 * DAY_MS),
            "writer_id": st.sampled_from([None, "", "ingest", "ingest\x00"]),
            "operation": st.sampled_from(["append", "overwrite"]),
            "trigger_type": st.sampled_from([None, "schedule"]),
            "added_rows": st.one_of(st.none(), st.integers(0, 2**40)),
            "added_bytes": st.one_of(st.none(), st.integers(0, 2**40)),
            "file": st.sampled_from(["f1", "f2"]),
        }
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=SNAPSHOTS, twice=st.integers(0, 5))
def test_sums_are_the_details(spark: Any, found: list[dict[str, Any]], twice: int) -> None:
    rows = [
        {**row, "identifier": f"lake.{row['uuid']}", "digest": f"d{place}", "month": month_of(row["committed_ms"])}
        for place, row in enumerate(found)
    ]
    table = pa.Table.from_pylist(rows + [row | {"file": "f3"} for row in rows[:twice]], schema=TO_SUM)
    lines = summed(spark.createDataFrame(table)).toArrow().to_pylist()
    for line in lines:
        of = [
            r for r in rows if all(r[k] == line[k] for k in ("uuid", "month", "writer_id", "operation", "trigger_type"))
        ]
        assert line["snapshots"] == len(of)
        assert line["rows"] == sum(row["added_rows"] or 0 for row in of)
        assert line["bytes"] == sum(row["added_bytes"] or 0 for row in of)
        first, last = (pick(of, key=lambda r: (r["committed_ms"], r["snapshot_id"])) for pick in (min, max))
        assert (line["first_id"], line["first_ms"]) == (first["snapshot_id"], first["committed_ms"])
        assert (line["last_id"], line["last_ms"]) == (last["snapshot_id"], last["committed_ms"])
        assert set(line["detail"]) <= {"f1", "f2", "f3"}
    assert sum(line["snapshots"] for line in lines) == len(rows)


def summaries(site: Site) -> dict[str, list[dict[str, Any]]]:
    """Every month's lines, each file compared with its digest."""
    ledger, stores = site.warden._deployment.ledger, site.warden._deployment.stores
    return {m.month: read_file(stores, m.uri, m.sha256).to_pylist() for m in ledger.history.months()}


def test_a_month_is_summed_up_when_it_is_over_and_again_when_more_of_it_is_archived(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        events = site.iceberg("events", 3, **{"writer.id": "ingest", "trigger.type": "schedule"})
        site.paimon("clicks", 2)
        month = f"{datetime.now(UTC):%Y-%m}"
        assert site.run(HISTORY).changed == {"rows": 5}
        assert summaries(site) == {}  # the month goes on
        site.later(24 * 32)
        plan = site.plan(HISTORY)
        assert {t.identifier: t.changes for t in plan.plan.tables} == {
            "lake.db.events": {"rows": 0, "months": 1},
            "stream.db.clicks": {"rows": 0, "months": 1},
        }
        assert site.apply(plan).changed == {"rows": 0, "months": 2}
        lines = {line["identifier"]: line for line in summaries(site)[month]}
        line = lines["lake.db.events"]
        assert (line["snapshots"], line["rows"], line["writer_id"]) == (3, 9, "ingest")
        ids = [snapshot.snapshot_id for snapshot in events.snapshots()]
        assert (line["first_id"], line["last_id"]) == (ids[0], ids[-1])
        assert line["bytes"] == sum(int(s.summary["added-files-size"]) for s in events.snapshots())  # type: ignore[index]
        assert line["detail"] == [file.uri for file in site.files()]
        assert lines["stream.db.clicks"]["snapshots"] == 2
        assert site.run(HISTORY).changed == {"rows": 0}
        # By the clock of the table's writer still the same month: archived late, and summed up again.
        events.append(ROWS)
        assert site.run(HISTORY).changed == {"rows": 1, "months": 2}
        assert sum(line["snapshots"] for line in summaries(site)[month]) == 6


def test_times_and_counts_that_no_honest_writer_has(tmp_path: Path) -> None:
    """A month of the year 100 is summed up like any other, and rows beyond 64 bits are told as unknown, not as a failure."""
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 3)
        document = document_of(table)
        for snapshot, at_ms in zip(document["snapshots"], (-59_000_000_000_000, 0, 1), strict=True):
            snapshot["timestamp-ms"] = at_ms
            snapshot["summary"] |= {"added-records": str(2**63 - 1), "added-files-size": "7"}
        edit(table, document)
        assert site.run(HISTORY).changed == {"rows": 3, "months": 2}
        (line,), (more,) = summaries(site)["0100-05"], summaries(site)["1970-01"]
        assert (line["rows"], line["bytes"]) == (2**63 - 1, 7)
        assert (more["rows"], more["bytes"], more["snapshots"]) == (None, 14, 2)
        assert site.run(HISTORY).changed == {"rows": 0}


def test_load_time_before_and_after_is_of_one_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that a plan has parsed already is parsed again for it, as by whoever opens the table."""
    real = known.parse

    def slow(raw: bytes, location: str) -> Any:
        time.sleep(0.1)
        return real(raw, location)

    with Site.at(tmp_path) as site:
        site.sections["history"]["metadata_previous_versions_max"] = 3
        site.iceberg("events", 8)
        monkeypatch.setattr(known, "parse", slow)
        plan = site.plan(HISTORY)
        assert plan.table("db.events").detail["metadata"]["load_ms"] >= 100
        result = site.apply(plan)
        steps = site.warden.run_detail(result.run_id)["steps"]
        (trimmed,) = (step["detail"] for step in steps if step["name"] == "trimmed")
        assert trimmed["before"]["load_ms"] >= 100
        assert trimmed["after"]["load_ms"] >= 100


def test_a_log_is_cut_only_where_the_policy_says_so(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 8)
        assert site.run(HISTORY).changed == {"rows": 8}
        assert len(table.refresh().metadata.metadata_log) == 8
        site.close()
        site.sections["history"]["metadata_previous_versions_max"] = 3
        plan = site.plan(HISTORY)
        assert plan.table("db.events").changes == {"rows": 0, "logs": 1}
        before = plan.table("db.events").detail["metadata"]
        result = site.apply(plan)
        assert result.changed == {"rows": 0, "logs": 1}
        table = table.refresh()
        assert len(table.metadata.metadata_log) == 3
        assert table.properties["write.metadata.previous-versions-max"] == "3"
        assert len(table.snapshots()) == 8
        assert table.scan().to_arrow().num_rows == 24
        steps = site.warden.run_detail(result.run_id)["steps"]
        (trimmed,) = (step["detail"] for step in steps if step["name"] == "trimmed")
        assert trimmed["before"]["bytes"] == before["bytes"] > trimmed["after"]["bytes"]
        assert trimmed["after"]["logged"] == 3
        assert trimmed["after"]["load_ms"] > 0
        # Every commit from now on keeps it so, and nothing is left to do.
        table.append(ROWS)
        assert len(table.refresh().metadata.metadata_log) == 3
        assert site.run(HISTORY).changed == {"rows": 1}
