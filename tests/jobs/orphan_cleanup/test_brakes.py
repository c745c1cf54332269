"""Each brake, pulled by a real lake, refuses its table and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakewarden.model.errors import NothingAppliedError, PlanUsedError
from lakewarden.model.known_table import KnownTable
from tests.jobs.orphan_cleanup.site import Site, edit_metadata, plant


def test_share_and_cap_of_orphans(site: Site) -> None:
    site.sections["orphan_cleanup"] |= {"max_orphan_share": 0.25, "max_orphans": 5}
    tables = {name: site.add(f"b.{name}", appends=8) for name in ("many", "large", "capped", "fine")}
    plant(tables["many"], *(["data/{}.parquet"] * 4), *(["metadata/{}.stats"] * 20))
    plant(tables["capped"], *(["data/{}.parquet"] * 6))
    plant(tables["fine"], *(["data/{}.parquet"] * 5))
    large = plant(tables["large"], "data/{}.parquet")[0]
    large.write_bytes(b"\0" * 5_000_000)
    site.old()
    seen = site.plan()
    assert seen.refusal("b.many") == "LW-BRAKE-004"
    assert seen.refusal("b.large") == "LW-BRAKE-004"
    assert "98% of the bytes" in seen.message("b.large")
    assert seen.refusal("b.capped") == "LW-BRAKE-005"
    assert seen.refusal("b.fine") is None
    assert seen.plan.brakes == {
        "orphan-share": ("lake.b.large", "lake.b.many"),
        "orphan-cap": ("lake.b.capped", "lake.b.many"),
    }
    assert seen.plan.totals()["changes"] == {"files": 5}
    assert len(seen.orphans("b.capped")) == 6, "what the brake held back is shown"


def test_a_plan_that_changes_nothing_but_what_a_brake_holds_is_refused_and_not_used_up(site: Site) -> None:
    """A table beside it that has nothing to do makes no `nothing to do` of a plan that a person has yet to decide on."""
    site.sections["orphan_cleanup"] |= {"max_orphans": 5}
    held = site.add("h.held", appends=8)
    site.add("h.clean")
    orphans = plant(held, *(["data/{}.parquet"] * 6))
    site.old()
    with site.another() as warden:
        planned = warden.plan("orphans", select="lake.h.*")
        with pytest.raises(NothingAppliedError, match="orphan-cap") as refused:
            warden.apply(planned)
        assert "--override-brake" in refused.value.hint
        assert warden.apply(planned, override_brakes="orphan-cap").deleted.files == len(orphans)
        with pytest.raises(PlanUsedError):
            warden.apply(planned)


def test_a_table_that_reaches_half_of_what_it_did_or_nothing_at_all(site: Site) -> None:
    """`moved` says that it lies where its files do not: nothing of what is listed is needed."""
    shrunk, grown = site.add("b.shrunk"), site.add("b.grown")
    moved = site.add("b.moved", location=f"file://{site.base}/elsewhere/t")
    edit_metadata(moved, location=f"file://{site.base}/warehouse/here/t")
    plant(site.base / "warehouse/here/t", "data/{}.parquet")
    site.old()
    warden = site.another()
    warden._deployment.ledger.known_tables.record(
        KnownTable(f"lake.b.{table.name()[-1]}", str(table.metadata.table_uuid), files, 9, (), datetime.now(UTC))
        for table, files in ((shrunk, 23), (grown, 21))
    )
    seen = site.plan(warden=warden)
    assert seen.refusal("b.shrunk") == "LW-BRAKE-006"
    assert "11 files are reachable, 23 were last time" in seen.message("b.shrunk")
    assert seen.refusal("b.grown") is None
    assert seen.refusal("b.moved") == "LW-BRAKE-001"
    assert {name for name, tables in seen.plan.brakes.items() if "lake.b.moved" in tables} == {
        "reachable-empty",
        "nothing-matched",
    }
