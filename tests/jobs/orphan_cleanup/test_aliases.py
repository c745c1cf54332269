"""One directory under two names, by a link above it: a file that is needed under one must not go under the other."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.model.errors import UnlistableError
from lakewarden.model.table import ReachedFile, TableState
from lakewarden.model.verdict import Kind
from lakewarden.pipeline.compare import compare as comparing
from lakewarden.steps.observe import links
from lakewarden.steps.observe.links import aliased, reached_by_links
from tests.jobs.orphan_cleanup.site import Site, edit_metadata, plant, register
from tests.support.lakes import age_everything, append, local_path


@pytest.fixture
def real(site: Site) -> Path:
    """The directory that `alias` leads to as well."""
    real = site.base / "warehouse/real"
    real.mkdir(parents=True)
    (site.base / "alias").symlink_to(real)
    return real


def test_a_table_whose_older_files_have_the_other_name(site: Site, real: Path) -> None:
    """Half of its files match, so no brake would hold the other half."""
    table = site.add("a.moved", location=f"file://{site.base}/alias/t")
    edit_metadata(table, location=f"file://{real}/t")
    append(site.catalog.load_table("a.moved"), 50)
    fine = plant(site.add("a.fine"), "data/{}.parquet")
    site.old()
    seen = site.plan()
    assert seen.refusal("a.moved") == "LW-ROOT-005"
    assert f"file://{real}/t/" in seen.message("a.moved")
    assert seen.orphans() == set(fine)


def test_two_tables_that_share_a_directory_under_two_names(site: Site, real: Path) -> None:
    site.add("a.one", location=f"file://{site.base}/one", properties={"write.data.path": f"file://{real}/shared"})
    site.add(
        "a.two", location=f"file://{site.base}/two", properties={"write.data.path": f"file://{site.base}/alias/shared"}
    )
    site.old()
    seen = site.plan()
    assert {seen.refusal(name) for name in ("a.one", "a.two")} == {"LW-ROOT-005"}
    assert seen.orphans() == set()


def test_a_file_that_is_borrowed_under_the_other_name(site: Site, real: Path) -> None:
    """The lender has let go of it; the borrower's statistics are there still."""
    lender = site.add("a.lender", location=f"file://{real}/t")
    plant(lender, "metadata/borrowed.stats")
    borrower = site.add("a.borrower")
    borrowed = {
        "snapshot-id": borrower.metadata.current_snapshot_id,
        "statistics-path": f"file://{site.base}/alias/t/metadata/borrowed.stats",
        "file-size-in-bytes": 4,
        "file-footer-size-in-bytes": 4,
        "blob-metadata": [],
    }
    edit_metadata(borrower, statistics=[borrowed])
    site.old()
    seen = site.plan()
    assert seen.refusal("a.lender") == "LW-ROOT-005"
    assert seen.refusal("a.borrower") is None
    assert seen.orphans() == set()


@pytest.mark.parametrize("through_link", [True, False])
def test_our_own_state_under_the_other_name(site: Site, real: Path, through_link: bool) -> None:
    lake, state = (real, site.base / "alias") if through_link else (site.base / "alias", real)
    site.add("a.t", location=f"file://{lake}/t")
    site.state = f"file://{state}/t/state"
    site.old()
    seen = site.plan()
    assert seen.refusal("a.t") == "LW-ROOT-005"


def test_a_lake_of_which_every_path_goes_through_the_link_is_planned(site: Site, real: Path) -> None:
    table = site.add("a.t", location=f"file://{site.base}/alias/t")
    planted = plant(table, "data/{}.parquet")
    site.old()
    seen = site.plan()
    assert seen.refusal("a.t") is None
    assert seen.orphans("a.t") == set(planted)
    assert seen.table("a.t").verdicts["live"].files > 0


@pytest.mark.parametrize("job", ["snapshot-expiry", "partition-expiry", "manifest-rewrite"])
def test_other_jobs_leave_such_a_table_alone_too(site: Site, real: Path, job: str) -> None:
    table = site.add("a.moved", location=f"file://{site.base}/alias/t")
    edit_metadata(table, location=f"file://{real}/t")
    append(site.catalog.load_table("a.moved"), 50)
    site.sections["snapshot_expiry"] = {"retain_hours": 0, "retain_min": 1}
    planned = site.another().plan(job).plan
    assert [found.refusal and found.refusal.code for found in planned.tables] == ["LW-ROOT-005"]


def test_a_name_above_a_root_by_the_same_link_is_no_other_name(tmp_path: Path) -> None:
    (tmp_path / "real/t").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    root = f"file://{tmp_path}/alias/t/"
    above = ReachedFile(f"file://{tmp_path}/alias/x.stats", Kind.STATISTICS)
    below = ReachedFile(f"file://{tmp_path}/real/t/x.stats", Kind.STATISTICS)
    state = TableState("lake.a.t", "iceberg", "u", f"{root}m.json", root, (root,), files=(above,))
    assert aliased([root], [state]) == {}
    assert aliased([root], [replace(state, files=(above, below))]).keys() == {root}


@pytest.mark.parametrize(
    ("target", "refused"), [("lake", False), ("lake/t", False), ("lake/t/data", True), ("elsewhere", False)]
)
def test_a_stray_link_among_tables_refuses_no_table_that_it_leads_to(
    tmp_path: Path, target: str, refused: bool
) -> None:
    (tmp_path / "lake/t/data").mkdir(parents=True)
    (tmp_path / "lake/stray").symlink_to(tmp_path / target)
    known, odd = f"file://{tmp_path}/lake/t/", f"file://{tmp_path}/lake/stray/"
    table = TableState("lake.a.t", "paimon", "u", f"{known}#1", known, (known,))
    stray = TableState("lake.a.stray", "paimon", "", f"{odd}#odd", odd, (odd,)).refused(
        UnlistableError("odd").refusal()
    )
    assert (known in aliased([known, odd], [table, stray])) == refused


@pytest.mark.parametrize("most", [comparing.MOST_LIVE, -1], ids=["by hashes", "by the join"])
def test_data_files_that_are_named_through_links(
    site: Site, real: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is an orphan to the table in whose directory it lies, which knows it under another name."""
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    through, plain = site.base / "alias", site.base / "plain"
    direct = site.add("a.direct", location=f"file://{real}/t")
    linked = site.add("a.linked", location=f"file://{through}/u")
    target = site.add("a.target", location=f"file://{plain}/target")
    borrower, holder = site.add("a.borrower", partitioned=False), site.add("a.holder", partitioned=False)
    behind = plant(direct, "data/behind.parquet"), plant(linked, "data/behind.parquet"), plant(target, "data/b.parquet")
    register(borrower, f"file://{through}/t/data/behind.parquet", f"file://{real}/u/data/behind.parquet")
    link = local_path(holder.location()) / "data/link.parquet"
    link.symlink_to(plain / "target/data/b.parquet")
    register(holder, f"file://{link}")
    whole = site.add("a.whole", location=f"file://{through}/v")
    orphans = {*plant(site.add("a.fine"), "data/{}.parquet"), *plant(whole, "data/{}.parquet")}
    site.old()
    age_everything(plain)
    for _ in range(2):  # the second time from the cache
        seen = site.plan(warden=site.warden)
        refusals = {table.identifier: table.refusal and table.refusal.code for table in seen.plan.tables}
        refused = dict.fromkeys(("lake.a.direct", "lake.a.linked", "lake.a.target", "lake.a.holder"), "LW-ROOT-005")
        assert refusals == refused | dict.fromkeys(("lake.a.borrower", "lake.a.fine", "lake.a.whole"))
        assert seen.orphans("a.fine") | seen.orphans("a.whole") == orphans
    site.apply(seen)
    assert all(path.exists() for several in behind for path in several)
    assert not any(path.exists() for path in orphans)


def test_a_link_that_leads_elsewhere_since_manifests_were_read(site: Site, real: Path) -> None:
    """What is remembered of a manifest is what it says, not where that led to."""
    lender, borrower = site.add("a.lender", location=f"file://{real}/t"), site.add("a.borrower", partitioned=False)
    (needed,) = plant(lender, "data/needed.parquet")
    alias = site.base / "alias"
    alias.unlink()
    (alias / "t/data").mkdir(parents=True)
    shutil.copy(needed, alias / "t/data")
    register(borrower, f"file://{alias}/t/data/needed.parquet")
    site.old()
    assert site.plan(warden=site.warden).orphans() == {needed}
    shutil.rmtree(alias)
    alias.symlink_to(real)
    assert site.plan(warden=site.warden).refusal("a.lender") == "LW-ROOT-005"


def test_a_data_file_that_is_named_through_a_link_since_the_plan(site: Site, real: Path) -> None:
    lender, borrower = site.add("a.lender", location=f"file://{real}/t"), site.add("a.borrower", partitioned=False)
    (late,) = plant(lender, "data/late.parquet")
    fine = plant(site.add("a.fine"), "data/{}.parquet")
    site.old()
    seen = site.plan(warden=site.warden)
    assert seen.orphans() == {late, *fine}
    register(borrower, f"file://{site.base}/alias/t/data/late.parquet")
    site.apply(seen)
    assert late.exists()
    assert not any(path.exists() for path in fine)


class TestWhatManifestsName:
    """Directories of data files, which only manifests name."""

    @pytest.fixture
    def lake(self, tmp_path: Path) -> str:
        for name in ("real/t/data/p=1", "real/u", "plain/v"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "alias").symlink_to(tmp_path / "real")
        (tmp_path / "plain/v/into").symlink_to(tmp_path / "real/t/data")
        (tmp_path / "chain").symlink_to("alias")
        (tmp_path / "loop").symlink_to("loop")
        return f"file://{tmp_path}"

    @pytest.mark.parametrize(
        ("root", "named", "reached"),
        [
            ("real/t/", "alias/t/data/p=1/", True),  # through the link, of a root that has its real name
            ("alias/t/", "real/t/data/p=1/", True),  # by the real name, of a root that is reached through the link
            ("alias/t/", "chain/t/", True),  # two names, both through links
            ("real/t/", "plain/v/into/p=1/", True),  # a link below another root
            ("real/t/", "chain/t/data/gone/", True),  # also where nothing is any more
            ("alias/t/", "alias/t/data/p=1/", False),
            ("real/t/", "real/t/data/p=1/", False),
            ("real/t/", "alias/u/", False),
            ("real/t/", "alias/", False),  # a file above the root is not in it
            ("real/t/", "real/t2/", False),
            ("plain/v/", "alias/t/", False),
            ("real/t/", "loop/t/", False),
            ("gone/t/", "gone/t/data/", False),
        ],
    )
    def test_a_root_is_refused_if_one_leads_into_it_by_another_name(
        self, lake: str, root: str, named: str, reached: bool
    ) -> None:
        found = reached_by_links([f"{lake}/{root}", f"{lake}/plain/x/", "s3://b/t/"], [f"{lake}/{named}"])
        assert found.keys() == ({f"{lake}/{root}"} if reached else set())
        assert all((why.code, f"{lake}/{named}" in why.message) == ("LW-ROOT-005", True) for why in found.values())

    def test_a_directory_is_looked_at_once(self, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
        looked: list[str] = []
        seen = links.os.lstat
        monkeypatch.setattr(links.os, "lstat", lambda path: looked.append(path) or seen(path))
        named = [f"{lake}/real/t/data/p={number}/" for number in range(200)]
        assert reached_by_links([f"{lake}/real/t/"], named * 2) == {}
        assert len(looked) == len(set(looked)) < 200 + 20

    @pytest.mark.parametrize("name", ["a\0b", "a" * 5000, "/".join("a" * 3000)])
    def test_names_that_no_disk_can_have_lead_nowhere(self, lake: str, name: str) -> None:
        assert reached_by_links([f"{lake}/real/t/"], [f"{lake}/real/t/{name}/"]) == {}
