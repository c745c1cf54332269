"""What stops a plan as a whole, and the places that are never swept."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from lakewarden.cli.main import main
from lakewarden.jobs.registry import JOBS
from lakewarden.model.errors import CatalogUnavailableError, NotFoundError, StateMisplacedError, StoreUnavailableError
from tests.jobs.orphan_cleanup.site import Site, edit_metadata, plant
from tests.support.lakes import local_path


def recorded(site: Site) -> tuple[int, int, list[Path]]:
    """Plans and reaches in the ledger, and plan directories."""
    database = sqlite3.connect(site.base / "state/lakewarden.db")
    counts = [
        database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("lw_plans", "lw_known_tables")
    ]
    database.close()
    return counts[0], counts[1], list((site.base / "state").glob("plans/*/plan.json"))


def test_a_catalog_that_is_down_stops_everything_and_nothing_is_recorded(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tables might hold files anywhere, so the healthy catalog's tables cannot be planned either."""
    plant(site.add("o.t"), "data/{}.parquet")
    site.old()
    down = site.base / "down.db"
    down.write_bytes(b"this is no database" * 100)
    site.catalogs["down"] = {"type": "sql", "uri": f"sqlite:///{down}", "warehouse": "file:///nowhere"}
    with pytest.raises(CatalogUnavailableError, match="catalog down could not be read"):
        site.plan()
    assert main(["plan", "orphans", "--config", site.config()]) == 1
    assert "LW-CATALOG-001" in capsys.readouterr().err
    assert recorded(site) == (0, 0, [])


def test_a_lake_whose_store_is_gone_stops_everything(site: Site) -> None:
    site.add("o.t")
    site.old()
    (site.base / "warehouse").rename(site.base / "unmounted")
    try:
        seen = site.plan()
    except StoreUnavailableError:
        return
    assert seen.refusal("o.t") == "LW-TABLE-001"
    assert not seen.rows


def test_a_selection_that_matches_nothing_says_so(site: Site) -> None:
    site.add("o.t")
    with pytest.raises(NotFoundError, match=r"lake\.o\.typo"):
        site.plan("lake.o.typo")
    assert recorded(site) == (0, 0, [])


def test_a_table_at_the_top_of_the_disk_is_never_swept_and_takes_the_others_with_it(site: Site) -> None:
    """Its root holds every other table's, so no file anywhere can be called nobody's."""
    table = site.add("o.top")
    site.add("o.t")
    edit_metadata(table, location="file:///")
    seen = site.plan()
    assert {seen.refusal(name) for name in ("o.top", "o.t")} == {"LW-ROOT-007"}
    assert seen.rows == []


@pytest.mark.parametrize("what", ["state", "plan"])
def test_a_state_or_a_plan_in_the_directory_of_a_table_is_refused_before_it_is_written(site: Site, what: str) -> None:
    table = site.add("o.t")
    within = local_path(table.location()) / "metadata" / "ours"
    if what == "state":
        site.state = f"file://{within}"
    site.old()
    for job in JOBS:
        with pytest.raises(StateMisplacedError, match="no plan was written"):
            site.warden.plan(job, out=None if what == "state" else str(within))
    ours = [path for path in within.rglob("*") if path.is_file() and not path.name.startswith("lakewarden.db")]
    assert ours == []


def test_a_root_within_the_state_is_left_alone(site: Site) -> None:
    site.add("o.t", location=f"file://{site.base}/warehouse/state/lake/t")
    site.add("o.fine")
    planted = plant(site.catalog.load_table("o.fine"), "data/{}.parquet")
    site.state = f"file://{site.base}/warehouse/state"
    site.old()
    seen = site.plan()
    assert seen.refusal("o.t") == "LW-ROOT-007"
    assert seen.orphans() == set(planted)


def test_excluding_is_selecting_the_rest_and_the_plan_names_who_asked(site: Site) -> None:
    for name in ("o.a", "o.b"):
        plant(site.add(name), "data/{}.parquet")
    site.old()
    seen = site.plan(exclude=["lake.o.a"], out=str(site.base / "my plan"))
    assert [table.identifier for table in seen.plan.tables] == ["lake.o.b"]
    assert seen.plan.actor.operator == "tester"
    document = json.loads((site.base / "my plan/plan.json").read_text())
    assert document["plan_id"] == seen.plan.plan_id
    assert {table["identifier"] for table in document["tables"]} == {"lake.o.b"}
    assert set(document["pointers"]) == {"lake.o.a", "lake.o.b"}, "what protects is every table"
