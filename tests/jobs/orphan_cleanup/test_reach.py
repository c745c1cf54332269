"""Live files protect wherever they lie, whatever was selected, refused or unreadable."""

from __future__ import annotations

from tests.jobs.orphan_cleanup.site import Site, metadata, plant, register, write_file
from tests.support.lakes import local_path


def lend(site: Site, lender: str, borrower: str) -> str:
    """A month-old file in the lender's directory that only the borrower holds."""
    home = local_path(site.catalog.load_table(lender).location())
    address = write_file(home / f"data/part=a/for-{borrower}.parquet")
    register(site.catalog.load_table(borrower), address)
    return address


def test_a_file_that_another_table_holds_is_kept_with_any_selection_and_any_refusal(site: Site) -> None:
    """Borrowers: one healthy, one with a policy that cannot be read, one that is not to be collected."""
    lender = site.add("a.lender")
    site.add("b.borrower")
    site.add("b.bad_policy", properties={"lakewarden.orphan_cleanup.grace_period_hours": "soon"})
    site.add("b.no_gc", properties={"gc.enabled": "false"})
    site.add("b.provider", properties={"write.location-provider.impl": "com.acme.Places"})
    lent = {lend(site, "a.lender", f"b.{name}") for name in ("borrower", "bad_policy", "no_gc", "provider")}
    planted = plant(lender, "data/part=a/{}.parquet")
    site.old()

    seen = site.plan("lake.a.*")
    assert [table.identifier for table in seen.plan.tables] == ["lake.a.lender"]
    assert seen.refusal("a.lender") is None
    assert seen.orphans() == set(planted)
    assert site.plan().orphans("a.lender") == set(planted)
    assert all(local_path(address).is_file() for address in lent)


def test_a_root_is_remembered_in_which_a_table_had_files_that_cannot_be_read_now(site: Site) -> None:
    lender = site.add("a.lender")
    site.add("a.other")
    borrower = site.add("b.borrower")
    address = lend(site, "a.lender", "b.borrower")
    plant(lender, "data/{}.parquet")
    plant(site.catalog.load_table("a.other"), "data/{}.parquet")
    site.old()
    assert site.plan().refusal("a.lender") is None

    metadata(site.catalog.load_table("b.borrower")).write_text("{")
    seen = site.plan()
    assert seen.refusal("b.borrower") == "LW-TABLE-001"
    assert seen.refusal("a.lender") == "LW-ROOT-001"
    assert "b.borrower had files under" in seen.message("a.lender")
    assert local_path(address) not in seen.orphans()
    assert len(seen.orphans("a.other")) == 1
    assert borrower.metadata_location


def test_files_of_a_table_that_shares_a_root_with_a_bad_policy_stay(site: Site) -> None:
    """The bad word of one table refuses that table; its live files in the shared directory are not orphans of the other."""
    shared = f"file://{site.base}/warehouse/shared"
    good = site.add("s.a_good", location=shared)
    site.add("s.bad", location=shared, properties={"lakewarden.orphan_cleanup.max_orphans": "-1"})
    planted = plant(good, "data/{}.parquet")
    site.old()
    seen = site.plan()
    assert seen.refusal("s.bad") == "LW-CONF-001"
    assert seen.refusal("s.a_good") is None
    assert seen.orphans() == set(planted)


def test_metadata_of_an_unknown_table_in_a_nested_directory_refuses_the_root_with_any_selection(site: Site) -> None:
    """The selected table owns none of the rows in which the stranger lies."""
    outer = site.add("n.outer", location=f"file://{site.base}/warehouse/n")
    inner = site.add("n.inner", location=f"file://{site.base}/warehouse/n/inner")
    stranger = site.add("n.stranger", location=f"file://{site.base}/warehouse/n/inner")
    plant(outer, "data/{}.parquet")
    site.catalog.drop_table("n.stranger")
    site.old()
    assert site.plan("lake.n.outer").refusal("n.outer") == "LW-ROOT-002"
    assert stranger.location() == inner.location()
