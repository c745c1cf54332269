"""Metrics are counted as runs end and plans are saved: once each, on both databases, whatever is restarted."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lakewarden.ledger.database import Ledger, open_ledger
from lakewarden.ledger.lease_counts import LOST, REFUSED, LeaseCounts
from lakewarden.ledger.metrics import Counted, Standing
from lakewarden.ledger.statuses import FAILED, STOPPED, WASTED
from lakewarden.model.errors import Refusal, StateError
from lakewarden.model.metrics import METRICS, PREFIX, tenant_of
from lakewarden.model.plan import Plan, TablePlan, Tally
from lakewarden.reports.metrics import OTHERS, TENANTS, Deployment
from tests.ledger.samples import ACTOR, NOON, files, outcomes, started
from tests.support.ledger import SteppedClock
from tests.support.promtool import promtool
from tests.support.service import service_in

GIB = 2**30


def told(ledger: Ledger, leases: int | None = 0) -> dict[str, float]:
    """Every sample as Prometheus would read it: `name{label="value"}` without the prefix."""
    return samples(ledger.metrics.read(), leases)


def samples(counted: Counted, leases: int | None = 0) -> dict[str, float]:
    text = generate_latest(Deployment(counted, leases, "9.9")).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(one.labels.items()))
            found[one.name.removeprefix(PREFIX) + (f"{{{labels}}}" if labels else "")] = one.value
    return found


def table(name: str, orphans: int = 0, refusal: Refusal | None = None, format: str = "iceberg") -> TablePlan:
    verdicts = {"live": Tally(8, 8 * GIB), "in_flight": Tally(2, 0), "orphan": Tally(orphans, orphans * GIB)}
    return TablePlan(name, f"u-{name}", format, "s3://m", (), refusal, {} if refusal else verdicts)


def a_plan(*tables: TablePlan, also: tuple[str, ...] = (), made: int = 0) -> Plan:
    at = NOON + timedelta(minutes=made)
    pointers = dict.fromkeys([*(one.identifier for one in tables), *also], "s3://m")
    return Plan("orphan-cleanup", at, at, at, ACTOR, tables, (), (), pointers=pointers).sealed()


def result(**more: Any) -> dict[str, Any]:
    return {"changed": {}, "deleted": {"files": 0, "bytes": 0}, "quarantined": {"files": 0, "bytes": 0}, **more}


def test_an_empty_ledger_tells_of_every_single_series(ledger: Ledger) -> None:
    found = told(ledger)
    assert found == {
        "build_info{version=9.9}": 1,
        "leases_active": 0,
        **dict.fromkeys((metric.name for metric in METRICS if not metric.labels), 0),
    }
    assert "leases_active" not in told(ledger, None), "a store that does not answer is no 0"


def test_a_run_is_counted_when_it_ends_and_only_then(ledger: Ledger, ledger_url: str, clock: SteppedClock) -> None:
    started(ledger)
    ledger.journal.intent("run-1", 0, files(3))
    assert told(ledger)["journal_open_intents"] == 1
    ledger.journal.outcomes("run-1", 0, outcomes(files(3)))
    ledger.journal.intent("run-1", 1, files(200, 1))
    ledger.journal.outcomes("run-1", 1, outcomes(files(200, 1), "failed"))
    before = told(ledger)
    assert before["journal_open_intents"] == 0
    assert not any(name.startswith("runs_total") for name in before)
    clock.sleep(100)
    failed = [{"uri": "s3://x", "code": "LW-STORE-001", "message": "m"}] * 150
    done = result(deleted={"files": 3, "bytes": 5}, quarantined={"files": 1, "bytes": 7}, failed=failed)
    ledger.runs.finish("run-1", "partial", {**done, "kept": {"revalidated": 4, "too_new": 9}})
    with pytest.raises(StateError):
        ledger.runs.finish("run-1", "partial", done)
    with open_ledger(ledger_url, clock) as again:
        found = told(again)
    job = "job=orphan-cleanup"
    assert found[f"runs_total{{{job},status=partial}}"] == 1
    assert (found[f"files_deleted_total{{{job}}}"], found[f"bytes_deleted_total{{{job}}}"]) == (4, 12)
    assert found[f"delete_errors_total{{code=LW-STORE-001,{job}}}"] == 150
    assert found[f"delete_errors_total{{code=other,{job}}}"] == 50, (
        "the record names the first ones, the journal counts"
    )
    assert found[f"files_kept_total{{{job},reason=revalidated}}"] == 4
    assert f"files_kept_total{{{job},reason=too_new}}" not in found, "the plan has counted it"
    assert found[f"batch_files_bucket{{{job},le=1.0}}"] == 0
    assert found[f"batch_files_bucket{{{job},le=10.0}}"] == 1
    assert (found[f"batch_files_count{{{job}}}"], found[f"batch_files_sum{{{job}}}"]) == (2, 203)
    assert found[f"run_duration_seconds_bucket{{{job},le=60.0}}"] == 0
    assert found[f"run_duration_seconds_bucket{{{job},le=300.0}}"] == 1
    assert 100 <= found[f"run_duration_seconds_sum{{{job}}}"] < 101
    assert f"last_success_timestamp_seconds{{{job}}}" not in found


def test_what_only_steps_know_is_counted(ledger: Ledger) -> None:
    ledger.runs.start("c", "compaction", "p", ACTOR)
    ledger.runs.step("c", WASTED, {"table": "t", "files": 1, "bytes": 300, "deleted": 1})
    ledger.runs.step("c", WASTED, {"table": "u", "files": 1, "bytes": 40, "deleted": 0})
    ledger.runs.finish("c", "done", result(changed={"groups": 2, "files": 12}))
    ledger.runs.start("e", "snapshot-expiry", "q", ACTOR)
    ledger.runs.finish("e", "done", result(changed={"snapshots": 5, "refs": 1}))
    ledger.runs.start("h", "history", "r", ACTOR)
    ledger.runs.finish("h", "done", result(changed={"rows": 7, "months": 2, "logs": 1}))
    started(ledger)
    ledger.runs.step("run-1", FAILED, {"code": "LW-APPLY-004", "message": "m"})
    ledger.runs.finish("run-1", "failed", result())
    found = told(ledger)
    assert found["wasted_bytes_total{job=compaction}"] == 340
    assert found["files_compacted_total"] == 12
    assert found["snapshots_expired_total"] == 5
    assert found["history_rows_archived_total"] == 7, "months and logs are no rows"
    assert found["invariant_violations_total"] == 1
    assert found["last_success_timestamp_seconds{job=compaction}"] == pytest.approx(NOON.timestamp(), abs=60)


def test_broken_lineage_rules_are_told_by_the_newest_check_of_the_whole_fleet(ledger: Ledger) -> None:
    def checked(found: int, *, also: tuple[str, ...] = (), made: int = 0) -> Plan:
        tables = tuple(replace(table(name), changes={"violations": found}) for name in ("c.a.a", "c.a.b"))
        return replace(a_plan(*tables, also=also, made=made), job="lineage-check").sealed()

    ledger.plans.save(checked(3), "/a")
    assert told(ledger)["lineage_violations"] == 6
    ledger.plans.save(checked(0, also=("c.a.other",), made=1), "/b")
    assert told(ledger)["lineage_violations"] == 6, "a plan of some tables says nothing of the fleet"
    ledger.plans.save(checked(1, made=2), "/c")
    assert told(ledger)["lineage_violations"] == 2


def test_a_batch_that_a_closed_run_left_open_stays_told(ledger: Ledger) -> None:
    started(ledger)
    ledger.journal.intent("run-1", 0, files(2))
    ledger.runs.finish("run-1", "failed", result())
    assert told(ledger)["journal_open_intents"] == 1


def test_each_stop_is_counted_once(ledger: Ledger) -> None:
    started(ledger)
    for status in (STOPPED, STOPPED, "running", STOPPED):
        ledger.runs.mark("run-1", status)
    assert told(ledger)["runs_total{job=orphan-cleanup,status=stopped}"] == 2


def test_a_plan_is_counted_when_it_is_first_saved(ledger: Ledger) -> None:
    refused = Refusal("LW-TABLE-002", "m", "h")
    made = a_plan(table("c.acme.a", 2), table("c.acme.b", refusal=refused), table("c.b.b", 1, format="paimon"))
    ledger.plans.save(made, "/a")
    ledger.plans.save(made, "/b")
    found = told(ledger)
    job = "job=orphan-cleanup"
    assert found[f"files_listed_total{{{job}}}"] == 23
    assert found[f"files_planned_total{{{job}}}"] == 3
    assert found[f"files_kept_total{{{job},reason=in_flight}}"] == 4
    assert found[f"refusals_total{{code=LW-TABLE-002,{job}}}"] == 1
    assert found[f"reclaimable_bytes{{format=iceberg,{job},tenant=acme}}"] == 2 * GIB
    assert found["orphan_share_ratio{format=iceberg,tenant=acme}"] == pytest.approx(0.2)
    assert found[f"reclaimable_bytes{{format=paimon,{job},tenant=b}}"] == GIB


def test_what_can_be_reclaimed_follows_plans_and_runs(ledger: Ledger) -> None:
    def reclaimable() -> dict[str, float]:
        return {one.tenant: one.reclaimable / GIB for one in ledger.metrics.read().standings}

    first = a_plan(table("c.a.t", 3), table("c.b.t", 1), table("c.d.t", 1))
    ledger.plans.save(first, "/a")
    ledger.plans.save(a_plan(table("c.a.t", 2), also=("c.b.t",), made=1), "/b")
    assert reclaimable() == {"a": 2, "b": 1}, "a narrow plan changes its tables alone; a dropped table is gone"
    started(ledger, "run-1", first.plan_id)
    ledger.runs.finish("run-1", "partial", result())
    assert reclaimable() == {"a": 2, "b": 1}, "what a partial run left is told by the next plan"
    started(ledger, "run-2", first.plan_id)
    ledger.runs.finish("run-2", "done", result(looked_at=["c.b.t"]))
    assert reclaimable() == {"a": 2, "b": 1}, "a is another plan's by now, b was only looked at"
    started(ledger, "run-3", first.plan_id)
    ledger.runs.finish("run-3", "done", result())
    assert reclaimable() == {"a": 2, "b": 0}


def test_runs_that_end_at_the_same_moment_are_all_counted(ledger: Ledger) -> None:
    names = [f"run-{number}" for number in range(40)]
    for name in names:
        started(ledger, name, name)
    done = result(deleted={"files": 1, "bytes": 2}, failed=[{"code": code} for code in ("b", "a")])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: ledger.runs.finish(name, "done", done), names))
    found = told(ledger)
    assert found["runs_total{job=orphan-cleanup,status=done}"] == 40
    assert found["bytes_deleted_total{job=orphan-cleanup}"] == 80


def test_lease_counts_are_taken_once_and_given_back(ledger: Ledger) -> None:
    counts = LeaseCounts()
    counts.add(REFUSED)
    counts.add(LOST)
    taken = counts.take()
    assert taken == {"lease_conflicts_total": 1, "lease_lost_total": 1}
    assert not counts.take()
    counts.give_back(taken)
    assert counts.take() == taken
    ledger.metrics.add_leases(taken)
    counts.add(LOST)
    ledger.metrics.add_leases(counts.take())
    found = told(ledger)
    assert (found["lease_conflicts_total"], found["lease_lost_total"]) == (1, 2)


def test_tenants_beyond_the_bound_are_one(ledger: Ledger) -> None:
    many = [Standing("orphan-cleanup", "iceberg", f"t{number:03}", 1, number) for number in range(TENANTS + 50)]
    found = samples(Counted({}, tuple(many)))
    series = [name for name in found if name.startswith("reclaimable_bytes")]
    assert len(series) == TENANTS + 1
    assert found[f"reclaimable_bytes{{format=iceberg,job=orphan-cleanup,tenant={OTHERS}}}"] == 50


def test_a_tenant_is_the_first_namespace() -> None:
    assert [tenant_of(name) for name in ("c.acme.prod.t", "c.acme.t", "c.t")] == ["acme", "acme", ""]


def test_thousands_of_runs_are_told_at_once(ledger: Ledger) -> None:
    for number in range(300):
        started(ledger, f"run-{number}", None)
        ledger.runs.finish(f"run-{number}", "done", result(failed=[{"code": f"LW-{number % 7}"}]))
    started(ledger, "at-work")
    ledger.journal.intent("at-work", 0, files(1))
    began = time.process_time()  # of this process alone: the machine may be busy with others
    found = told(ledger)
    assert time.process_time() - began < 0.5
    assert found["runs_total{job=orphan-cleanup,status=done}"] == 300
    assert found["journal_open_intents"] == 1


def test_promtool_finds_nothing_wrong_with_the_text(ledger: Ledger) -> None:
    made = replace(a_plan(table('c.we"ird\\.t', 2)), plan_id="")
    ledger.plans.save(made.sealed(), "/a")
    started(ledger)
    ledger.journal.intent("run-1", 0, files(3))
    ledger.runs.finish("run-1", "done", result(deleted={"files": 1, "bytes": 2}))
    text = generate_latest(Deployment(ledger.metrics.read(), 3, "9.9"))
    assert promtool("check", "metrics", given=text) == (0, "")
    assert promtool("check", "metrics", given=text.replace(b"_total", b"_sum_total_x"))[0] != 0, "it looks"


def test_a_scrape_reads_only_leases_that_can_be_held(tmp_path: Path) -> None:
    """Leases stay after their release, one for each root and run that there ever was."""
    service = service_in(tmp_path)
    leases, now = service.warden._deployment.leases, service.clock.now()
    leases.acquire("root/old", 60).release()
    (old,) = (tmp_path / "state" / "leases").iterdir()
    leases.acquire("root/new", 60).release()
    long_ago = (now - timedelta(hours=2)).timestamp()
    os.utime(old, (long_ago, long_ago))
    with leases.acquire("root/held", 60):
        found = [record.key for _, record in leases.records("", since=now - timedelta(hours=1)) if record]
        assert sorted(found) == ["root/held", "root/new"]
        assert "lakewarden_leases_active 1.0" in service.warden.metrics()
    assert "lakewarden_leases_active 0.0" in service.warden.metrics()
    service.ledger.close()
