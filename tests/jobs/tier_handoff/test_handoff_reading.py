"""What a handover's plan reads: through the cache of proven manifests, here for a small table, else in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewarden.jobs.tier_handoff import aged_files
from lakewarden.model.plan import FILES_DIR
from lakewarden.pipeline.compare import needs
from lakewarden.pipeline.read.cache import ENTRIES, KEYS
from lakewarden.steps.compare import compare as steps_compare
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.jobs.tier_handoff.aged import HANDOFF, age_out, cold_site, detail_of, forget_manifests, ids_of, made
from tests.support.deployments import Seen
from tests.support.lakes import local_path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with cold_site(tmp_path) as site:
        yield site


def data_of(table: Any, number: int) -> set[str]:
    return {task.file.file_path for task in table.scan(snapshot_id=number).plan_files()}


def told(seen: Seen) -> tuple[Any, ...]:
    """Everything that a plan says of its tables and files."""
    tables = [(t.identifier, t.refusal, t.kinds, t.changes, t.detail) for t in seen.plan.tables]
    return sorted(seen.rows, key=str), tables, seen.plan.totals()


def test_a_small_table_needs_no_spark(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(site.catalog())
    age_out(site, table, ids_of(table)[:2])
    monkeypatch.setattr(needs, "FEW_MANIFESTS", 1)
    monkeypatch.setattr(aged_files.Survey, "_spark", None)
    assert site.plan(HANDOFF).plan.tables[0].changes["snapshots"] == 2


def test_what_was_proven_is_in_the_cache_and_read_from_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(site.catalog())
    age_out(site, table, ids_of(table)[:2])
    first = site.plan(HANDOFF)
    kept = site.warden._deployment.ledger.cache.files()
    assert {file.kind for file in kept} >= {ENTRIES, KEYS}
    monkeypatch.setattr("lakewarden.pipeline.read.entries.packed_rows", None)
    assert told(site.plan(HANDOFF)) == told(first)
    assert site.warden._deployment.ledger.cache.files() == kept


def test_a_cache_file_with_other_bytes_is_not_used(site: Site) -> None:
    table = made(site.catalog())
    age_out(site, table, ids_of(table)[:2])
    first = site.plan(HANDOFF)
    for file in site.warden._deployment.ledger.cache.files():
        if file.kind == KEYS:
            local_path(file.uri).write_bytes(bytes(file.bytes))
    assert told(site.plan(HANDOFF)) == told(first)


def test_a_manifest_that_was_cut_after_it_was_proven_refuses_the_table(site: Site) -> None:
    """Cut between two blocks it looks healthy, and its copy would lack the files of the rest."""
    table = made(site.catalog())
    age_out(site, table, ids_of(table)[:2])
    site.plan(HANDOFF)
    manifest = local_path(table.current_snapshot().manifests(table.io)[-1].manifest_path)  # type: ignore[union-attr]
    manifest.write_bytes(manifest.read_bytes()[:-1])
    known = site.plan(HANDOFF)
    forget_manifests(site)
    assert "bytes where its list says" in known.message("sales.orders")
    assert known.plan.tables[0].refusal == site.plan(HANDOFF).plan.tables[0].refusal


def test_a_look_that_is_repeated_leaves_no_row_of_the_first(site: Site) -> None:
    table = made(site.catalog())
    ids = ids_of(table)
    lost = data_of(table, ids[2]) - data_of(table, ids[1])
    age_out(site, table, ids[:3])
    local_path(min(lost)).unlink()
    seen = site.plan(HANDOFF)
    assert {line["snapshot_id"] for line in detail_of(seen)["keep"]} == {ids[2]}
    parts = sorted((local_path(seen.path) / FILES_DIR).glob("*.parquet"))
    assert len(parts) > len(seen.plan.parts)
    assert sum(pq.read_metadata(part).num_rows for part in parts) == len(seen.rows)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("damage", ["nothing", "manifest", "live manifest", "list", "shared data", "cut"])
def test_both_ways_give_the_same_plan(site: Site, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    """Two tables, one of which added files of the other; a tag keeps one snapshot of the first alive."""
    catalog = site.catalog()
    table = made(catalog)
    ids = ids_of(table)
    first, second = data_of(table, ids[0]), data_of(table, ids[1])
    other = catalog.create_table("sales.other", table.schema(), partition_spec=table.spec())
    other.add_files(sorted(first)[:1])
    other.add_files(sorted(second - first))
    table.manage_snapshots().create_tag(ids[1], "kept").commit()
    table.delete()
    snapshots = {number: table.refresh().snapshot_by_id(number) for number in ids}
    manifests = {m.added_snapshot_id: m.manifest_path for m in snapshots[ids[2]].manifests(table.io)}
    gone = {
        "manifest": manifests[ids[2]],
        "live manifest": manifests[ids[1]],
        "list": snapshots[ids[2]].manifest_list,
        "shared data": min(first),
    }
    age_out(site, table, [ids[0], *ids[2:]])
    age_out(site, other.refresh(), ids_of(other)[:1], run="run-2")
    if damage in gone:
        local_path(gone[damage]).unlink()
    monkeypatch.setattr("lakewarden.model.tiers.HandoffPolicy.archives", True)
    if damage == "cut":
        site.plan(HANDOFF)
        local_path(manifests[ids[2]]).write_bytes(b"")
    few = told(site.plan(HANDOFF))
    assert {row["verdict"] for row in few[0]} == (set() if damage == "shared data" else {"live", "pending"})
    refusal, detail = few[1][0][1], few[1][0][-1]
    lost = {"manifest": set(ids[2:]), "list": {ids[2]}, "nothing": set()}
    assert (refusal is not None) is (damage not in lost)
    assert {line["snapshot_id"] for line in detail.get("keep", ())} == lost.get(damage, set())
    for module, limit in ((steps_compare, "FEW_LISTS"), (needs, "FEW_MANIFESTS"), (aged_files, "FEW_ENTRIES")):
        monkeypatch.setattr(module, limit, 0)
    if damage != "cut":
        forget_manifests(site)
    assert told(site.plan(HANDOFF)) == few
