"""One table of which too little is seen holds its neighbours' orphans: in whatever directory it ever had a file."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.model.errors import NotFoundError
from tests.jobs.orphan_cleanup.site import Site, data_files, metadata, plant
from tests.support.lakes import append, local_path

GRACE = "lakewarden.orphan_cleanup.grace_period_hours"


def neighbours(site: Site, place: str, **properties: str) -> tuple[Path, Path]:
    """Two tables that write their data to one directory, with an orphan in it, and one with an orphan elsewhere."""
    shared = f"file://{site.base}/warehouse/{place}/shared"
    site.add(f"{place}.one", properties={"write.data.path": shared})
    site.add(f"{place}.other", properties={"write.data.path": shared, **properties})
    apart = site.add(f"{place}.apart")
    return plant(local_path(shared), "{}.parquet")[0], plant(apart, "data/{}.parquet")[0]


def set_pointer(site: Site, name: str, location: str | None) -> None:
    """As a catalog that was restored from a backup, or broken, shows a table."""
    database = site.catalogs["lake"]["uri"].removeprefix("sqlite:///")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (location, name))


def test_a_needed_file_that_is_missing_stops_the_neighbour_too(site: Site) -> None:
    orphan, apart = neighbours(site, "missing")
    site.old()
    data_files(site.catalog.load_table("missing.one"))[0].unlink()
    seen = site.plan("lake.missing.*")
    assert seen.refusal("missing.one") == seen.refusal("missing.other") == "LW-BRAKE-002"
    assert "lake.missing.one had files under" in seen.message("missing.other")
    assert sorted(seen.plan.brakes["live-missing"]) == ["lake.missing.one", "lake.missing.other"]
    assert seen.refusal("missing.apart") is None
    narrow = site.plan("lake.missing.other")
    assert narrow.refusal("missing.other") == "LW-BRAKE-002", "whatever was selected"
    assert apart in seen.orphans()
    assert seen.plan.totals()["changes"] == {"files": 1}, "what the brake held back is shown, and stays"
    assert orphan in seen.orphans("missing.one") | seen.orphans("missing.other")


def test_the_longest_grace_of_all_tables_in_a_directory_counts(site: Site) -> None:
    young = timedelta(days=8)
    neighbours(site, "slow", **{GRACE: "240"})
    site.old()
    planted = plant(site.base / "warehouse/slow/shared", "young.parquet", age=young)[0]
    beside = plant(site.catalog.load_table("slow.apart"), "data/young.parquet", age=young)[0]
    seen = site.plan()
    assert (seen.verdict(planted), seen.verdict(beside)) == ("too_new", "orphan")


@pytest.mark.parametrize("pointer", ["older", None, ""], ids=["older", "null", "empty"])
def test_a_catalog_that_shows_less_of_a_table_holds_what_it_ever_touched(site: Site, pointer: str | None) -> None:
    """Between two plans the catalog loses what it knew; when it is back, the same plan goes through."""
    orphan, apart = neighbours(site, "set_back")
    other = site.catalog.load_table("set_back.other")
    older = other.metadata_location
    append(other, 70)
    newest = site.catalog.load_table("set_back.other").metadata_location
    site.old()
    assert site.plan().orphans() == {orphan, apart}

    set_pointer(site, "other", older if pointer == "older" else pointer)
    seen = site.plan()
    assert seen.refusal("set_back.one") in ("LW-DOUBT-002", "LW-ROOT-001")
    assert "lake.set_back.other" in seen.message("set_back.one")
    assert seen.orphans() == {apart}
    assert site.plan().orphans() == {apart}, "doubt does not pass by being seen"

    set_pointer(site, "other", newest)
    assert site.plan().orphans() == {orphan, apart}


def test_a_dropped_table_is_missed_until_the_drop_is_believed_or_the_operator_says_so(site: Site) -> None:
    orphan, apart = neighbours(site, "dropped")
    site.old()
    assert site.plan().orphans() == {orphan, apart}
    site.catalog.drop_table("dropped.other")
    seen = site.plan()
    assert seen.refusal("dropped.one") == "LW-DOUBT-001"
    assert seen.orphans() == {apart}
    assert any("lake.dropped.other is in doubt" in note for note in seen.plan.notes)

    warden = site.another()
    with pytest.raises(NotFoundError):
        warden.forget("lake.dropped.nobody", "a slip")
    places = warden.forget("lake.dropped.other", "dropped on purpose")
    assert f"file://{site.base}/warehouse/dropped/shared/" in places
    after = site.plan()
    # Its data files lie there still, and nobody needs them now.
    assert after.orphans() > {orphan, apart}


def test_a_table_that_changed_and_cannot_be_read_may_need_any_orphan(site: Site) -> None:
    orphan, apart = neighbours(site, "torn")
    site.old()
    assert site.plan().orphans() == {orphan, apart}
    append(site.catalog.load_table("torn.apart"), 80)
    metadata(site.catalog.load_table("torn.apart")).write_text("{")
    seen = site.plan()
    assert seen.refusal("torn.one") == "LW-BRAKE-007"
    assert "lake.torn.apart changed since it was last read whole" in seen.message("torn.one")
    assert "damaged-table" in seen.plan.brakes


def test_a_new_table_that_cannot_be_read_may_need_any_orphan_until_it_is_accepted(site: Site) -> None:
    """In a deployment's first plan nothing is new: what cannot be read there is said, and the others go on."""
    first = site.add("fresh.broken")
    orphan, apart = neighbours(site, "fresh")
    metadata(first).write_text("{")
    site.old()
    seen = site.plan()
    assert seen.orphans() == {orphan, apart}
    assert any("lake.fresh.broken cannot be read" in note for note in seen.plan.notes)
    assert site.plan().refusal("fresh.one") is None, "nothing changed since"

    metadata(site.add("fresh.new")).write_text("{")
    braked = site.plan()
    assert braked.refusal("fresh.one") == "LW-BRAKE-007"
    assert "lake.fresh.new is new or was never read whole" in braked.message("fresh.one")
    site.another().forget("lake.fresh.new", "nobody will repair it")
    assert site.plan().refusal("fresh.one") is None
