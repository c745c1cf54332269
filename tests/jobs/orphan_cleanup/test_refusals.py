"""Everything that makes a root or a table unknown leaves it alone, by name, and the others go on. One lake, one plan."""

from __future__ import annotations

import json
import shutil

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.jobs.orphan_cleanup.site import Site, edit_metadata, metadata, plant
from tests.support.deployments import Seen
from tests.support.lakes import age_everything, append, local_path

MARKS = {
    "delta": "_delta_log/00000000000000000000.json",
    "hudi": ".hoodie/hoodie.properties",
    "paimon": "snapshot/LATEST",
}
DEEP = {"deep_delta": "data/x/_delta_log/0.json"}
EXPECTED = {
    **dict.fromkeys((*MARKS, *DEEP), "LW-ROOT-004"),
    "linked_file": "LW-ROOT-005",
    "linked_folder": "LW-ROOT-005",
    "linked_root": "LW-ROOT-005",
    "control": "LW-STORE-003",
    "foreign": "LW-ROOT-002",
    "foreign_deep": "LW-ROOT-002",
    "recreated": "LW-ROOT-002",
    "forked": "LW-ROOT-003",
    "twice": "LW-ROOT-003",
    "owned": "LW-ROOT-006",
    "garbled_owner": "LW-ROOT-006",
    "gc": "LW-TABLE-004",
    "encrypted": "LW-TABLE-006",
    "future": "LW-TABLE-003",
    "nameless": "LW-TABLE-003",
    "provider": "LW-TABLE-003",
    "bad_policy": "LW-CONF-001",
    "unknown_section": "LW-CONF-001",
    "short_grace": "LW-CONF-004",
    "relative": "LW-TABLE-001",
}


def copied(table: Table, name: str, catalog: SqlCatalog) -> Table:
    """The same table registered in another catalog, which then goes its own way."""
    catalog.create_namespace_if_not_exists("other")
    return catalog.register_table(f"other.{name}", table.metadata_location)


@pytest.fixture(scope="module")
def lake(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("refusals"))
    properties = {
        "gc": {"gc.enabled": "false"},
        "encrypted": {"encryption.key-id": "k"},
        "provider": {"write.location-provider.impl": "com.acme.Places"},
        "bad_policy": {"lakewarden.orphan_cleanup.grace_period_hours": "soon"},
        "unknown_section": {"lakewarden.orphans.enabled": "false"},
        "short_grace": {"lakewarden.orphan_cleanup.grace_period_hours": "23"},
    }
    names = [*EXPECTED, "healthy", "rival", "abandoned", "same", "leftover"]
    tables = {name: site.add(f"r.{name}", properties=properties.get(name)) for name in names if name != "recreated"}
    root = {name: local_path(table.location()) for name, table in tables.items()}

    for name, mark in {**MARKS, **DEEP}.items():
        plant(tables[name], mark)
    outside = site.base / "outside"
    outside.mkdir()
    (outside / "kept.parquet").write_bytes(b"x" * 9)
    age_everything(outside)
    (root["linked_file"] / "data/link.parquet").symlink_to(outside / "kept.parquet")
    (root["linked_folder"] / "data/away").symlink_to(outside)
    shutil.move(root["linked_root"], site.base / "real_root")
    root["linked_root"].symlink_to(site.base / "real_root")
    plant(tables["control"], "data/a\nb.parquet")

    foreign = site.add("r.gone_foreign")
    for name, folder in (("foreign", "metadata"), ("foreign_deep", "data/x/metadata"), ("abandoned", "metadata")):
        (root[name] / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(metadata(foreign), root[name] / folder / f"00001-{name}.metadata.json")
    site.abandoned = str(foreign.metadata.table_uuid)  # type: ignore[attr-defined]
    text = (root["abandoned"] / "metadata/00001-abandoned.metadata.json").read_text()
    other = site.abandoned.replace(site.abandoned[:4], "ffff")  # type: ignore[attr-defined]
    site.other = other  # type: ignore[attr-defined]
    (root["abandoned"] / "metadata/00001-abandoned.metadata.json").write_text(
        text.replace(str(foreign.metadata.table_uuid), other)
    )
    site.catalog.drop_table("r.gone_foreign")
    shutil.rmtree(local_path(foreign.location()))
    dropped = site.add("r.recreated")
    site.catalog.drop_table("r.recreated")
    tables["recreated"] = site.add("r.recreated", location=dropped.location())

    second = {"type": "sql", "uri": f"sqlite:///{site.base}/second.db", "warehouse": f"file://{site.base}/second"}
    site.catalogs["second"] = second
    known = SqlCatalog("second", **second)
    append(copied(tables["forked"], "forked", known), 50)
    copied(tables["same"], "same", known)
    known.close()
    hidden = SqlCatalog(
        "hidden", type="sql", uri=f"sqlite:///{site.base}/hidden.db", warehouse=f"file://{site.base}/hidden"
    )
    append(copied(tables["rival"], "rival", hidden), 50)
    away = copied(tables["twice"], "twice", hidden)
    append(away, 50)
    append(away, 60)
    hidden.close()

    records = root["owned"].parent / ".lakewarden"
    records.mkdir()
    (records / f"owner-{root['owned'].name}.json").write_text(json.dumps({"deployment": "elsewhere", "worker": "w9"}))
    (records / f"owner-{root['garbled_owner'].name}.json").write_text("{")
    edit_metadata(tables["future"], format_version=4)
    edit_metadata(tables["nameless"], table_uuid=None)
    edit_metadata(tables["relative"], properties={"write.data.path": "data/here"})
    (root["leftover"] / "metadata/00009-cut.metadata.json").write_text("{")
    for name in names:
        if name != "linked_root":
            plant(tables[name], "data/{}.parquet")
    age_everything(site.base)
    return site


@pytest.fixture(scope="module")
def seen(lake: Site) -> Seen:
    warden = lake.another()
    warden.abandon(lake.other, "dropped long ago")  # type: ignore[attr-defined]
    return lake.plan(warden=warden)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_unknown_is_refused_by_name(seen: Seen, name: str) -> None:
    table = seen.table(f"r.{name}")
    assert table.refusal is not None
    assert table.refusal.code == EXPECTED[name]
    assert table.refusal.hint
    assert table.status == "refused"
    assert table.changes == {}
    assert not [row for row in seen.rows if row["table"] == table.identifier]


def test_the_others_go_on(seen: Seen) -> None:
    assert seen.refusal("r.healthy") is None
    assert len(seen.orphans("r.healthy")) == 1


def test_what_lies_behind_a_link_is_in_no_plan(lake: Site, seen: Seen) -> None:
    assert not [row for row in seen.rows if any(part in row["uri"] for part in ("outside", "link", "real_root"))]
    assert (lake.base / "outside/kept.parquet").is_file()


def test_one_commit_of_an_unknown_catalog_protects_what_it_reaches(lake: Site, seen: Seen) -> None:
    """Perhaps only a lost commit: the table is planned, its files stay."""
    assert seen.refusal("r.rival") is None
    assert len(seen.orphans("r.rival")) == 1
    hidden = SqlCatalog(
        "hidden", type="sql", uri=f"sqlite:///{lake.base}/hidden.db", warehouse=f"file://{lake.base}/hidden"
    )
    theirs = hidden.load_table("other.rival")
    hidden.close()
    reached = {local_path(path) for path in theirs.inspect.files()["file_path"].to_pylist()} | {metadata(theirs)}
    assert not reached & seen.orphans()


def test_an_abandoned_table_s_files_count_as_nobodys(lake: Site, seen: Seen) -> None:
    assert seen.refusal("r.abandoned") is None
    assert {path.name for path in seen.orphans("r.abandoned")} >= {"00001-abandoned.metadata.json"}


def test_one_table_in_two_catalogs_at_the_same_metadata_is_no_fork(seen: Seen) -> None:
    assert seen.refusal("r.same") is None
    assert seen.refusal("second.other.same") is None
    assert len(seen.orphans("r.same") | seen.orphans("second.other.same")) == 1


def test_both_names_of_a_forked_table_are_refused(seen: Seen) -> None:
    assert seen.refusal("second.other.forked") == "LW-ROOT-003"


def test_half_a_metadata_file_is_kept_and_stops_nobody(lake: Site, seen: Seen) -> None:
    assert seen.refusal("r.leftover") is None
    assert len(seen.orphans("r.leftover")) == 1
    assert not any(path.name == "00009-cut.metadata.json" for path in seen.orphans())


def test_short_grace_is_allowed_for_a_table_named_by_its_uuid(lake: Site) -> None:
    uuid = str(lake.catalog.load_table("r.short_grace").metadata.table_uuid)
    seen = lake.plan("lake.r.short_grace", unsafe_short_grace=[uuid])
    assert seen.refusal("r.short_grace") is None
    assert len(seen.orphans()) == 1


def test_a_root_of_which_only_one_table_is_selected_is_refused_for_the_other_ones_reason(lake: Site) -> None:
    assert lake.plan("lake.r.gc").refusal("r.gc") == "LW-TABLE-004"
