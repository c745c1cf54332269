"""Audit questions over real tables of both formats: live, expired and archived, across tables and catalogs."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.cli.main import main
from lakewarden.model.errors import ArchiveDamagedError, NotFoundError, UsageError
from tests.jobs.history.archived import EXPIRY, HISTORY, ROWS, Site, ids

INGEST = {
    "writer.id": "ingest-1",
    "writer.host": "station-3",
    "writer.commit_hash": "a1b2c3d",
    "writer.invocation_id": "run-7",
    "trigger.type": "schedule",
}
BY_HAND = {
    "writer.id": "fix",
    "trigger.type": "incident-response",
    "trigger.operator": "j.smith",
    "trigger.ticket": "T-3",
}


class Lake(Site):
    """raw -> clean -> mart, each made from the one before."""

    raw: int
    clean: int
    mart: int


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.at(tmp_path) as site:
        assert isinstance(site, Lake)
        raw = site.iceberg("raw", 1, **INGEST)
        site.raw = raw.current_snapshot().snapshot_id  # type: ignore[union-attr]
        clean = site.iceberg("clean", 1, **{"writer.id": "cleaner", "input.snapshot_ids": str(site.raw)})
        site.clean = clean.current_snapshot().snapshot_id  # type: ignore[union-attr]
        mart = site.iceberg("mart", 1, **{"writer.id": "m", "input.snapshot_ids": f"lake.db.clean@{site.clean}"})
        site.mart = mart.current_snapshot().snapshot_id  # type: ignore[union-attr]
        yield site


def test_origin_of_a_snapshot(lake: Lake) -> None:
    (found,) = lake.warden.audit_origin(str(lake.raw))["origins"]
    assert found["table"] == "lake.db.raw"
    assert found["writer"] == {
        "id": "ingest-1",
        "host": "station-3",
        "commit_hash": "a1b2c3d",
        "invocation_id": "run-7",
    }
    assert found["trigger"]["type"] == "schedule"
    assert found["rows"] == 3
    (found,) = lake.warden.audit_origin(f"lake.db.mart@{lake.mart}")["origins"]
    assert [(one["snapshot"], one["state"]) for one in found["inputs"]] == [(f"lake.db.clean@{lake.clean}", "live")]
    with pytest.raises(NotFoundError):
        lake.warden.audit_origin("lake.db.raw@1")
    with pytest.raises(UsageError):
        lake.warden.audit_origin("data/a.parquet")


def test_origin_of_files_of_both_formats_live_and_deleted(lake: Lake) -> None:
    table = lake.catalog().load_table("db.raw")
    before = table.inspect.files()["file_path"][0].as_py()
    table.append(ROWS, snapshot_properties=BY_HAND)
    (found,) = lake.warden.audit_origin(before)["origins"]
    assert found["snapshot_id"] == lake.raw  # not the newest, which needs the file too
    clicks = lake.paimon("clicks", 3)
    by_snapshot = {}
    for data in clicks.path.rglob("data-*.parquet"):
        answer = lake.warden.audit_origin(str(data))
        assert answer["resolved_by"] == "manifest"
        by_snapshot[answer["origins"][0]["snapshot_id"]] = data
    assert sorted(by_snapshot) == [1, 2, 3]
    explained = lake.warden.explain(before)
    assert explained["written_by"]["snapshot"] == f"lake.db.raw@{lake.raw}"
    assert explained["written_by"]["writer"]["id"] == "ingest-1"
    # What a table's own manifests do not tell any more is told by the archive.
    lake.run(HISTORY)
    snapshot = clicks.path / "snapshot"
    for number in (1, 2):
        (snapshot / f"snapshot-{number}").unlink()
    (snapshot / "EARLIEST").write_text("3")
    answer = lake.warden.audit_origin(str(by_snapshot[2]))
    assert answer["resolved_by"].startswith("time")
    assert [(one["snapshot_id"], one["state"]) for one in answer["origins"]] == [(2, "archived")]


def test_downstream_across_tables_live(lake: Lake) -> None:
    answer = lake.warden.audit_downstream(str(lake.raw))
    assert [one["snapshot"] for one in answer["from"]] == [f"lake.db.raw@{lake.raw}"]
    assert [(one["depth"], one["snapshot"]) for one in answer["downstream"]] == [
        (1, f"lake.db.clean@{lake.clean}"),
        (2, f"lake.db.mart@{lake.mart}"),
    ]
    assert answer["tables"] == {"lake.db.clean": 1, "lake.db.mart": 1}
    assert lake.warden.audit_downstream(f"lake.db.mart@{lake.mart}")["total"] == 0
    with pytest.raises(NotFoundError):
        lake.warden.audit_downstream("77")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("by_spark", [False, True])
def test_downstream_over_expired_snapshots(lake: Lake, monkeypatch: pytest.MonkeyPatch, by_spark: bool) -> None:
    for name in ("raw", "clean"):
        lake.catalog().load_table(f"db.{name}").append(ROWS)
    lake.run(HISTORY)
    lake.later(24)
    assert lake.run(EXPIRY).changed["snapshots"] == 2
    assert lake.raw not in ids(lake.catalog().load_table("db.raw"))
    if by_spark:
        monkeypatch.setattr(sys.modules["lakewarden.reports.audit.downstream"], "FEW_ROWS", 0)
    answer = lake.warden.audit_downstream(str(lake.raw))
    assert [(one["snapshot"], one["state"]) for one in answer["downstream"]] == [
        (f"lake.db.clean@{lake.clean}", "archived"),
        (f"lake.db.mart@{lake.mart}", "live"),
    ]
    assert answer["from"][0]["state"] == "archived"
    expired = [one for one in lake.warden.audit_who(f"lake.db.raw@{lake.raw}") if one["outcome"] == "expired"]
    assert expired[0]["actor"]["operator"]
    (file,) = lake.files()
    lake.path(file).unlink()
    with pytest.raises(ArchiveDamagedError, match=file.uri):
        lake.warden.audit_downstream(str(lake.raw))
    lake.run(HISTORY)
    # What is lost is no answer any more; what still names it is, and says so.
    answer = lake.warden.audit_downstream(str(lake.clean))
    assert [one["snapshot"] for one in answer["downstream"]] == [f"lake.db.mart@{lake.mart}"]
    assert list(answer["lost_archive_files"]) == [file.uri]


def test_the_same_id_in_two_tables_and_catalogs(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        site.paimon("a", 2)
        site.paimon("b", 2)
        assert {one["table"] for one in site.warden.audit_origin("1")["origins"]} == {"stream.db.a", "stream.db.b"}
        (found,) = site.warden.audit_origin("stream.db.b@1")["origins"]
        assert found["table"] == "stream.db.b"
        made = site.iceberg("mart", 1, **{"input.snapshot_ids": "stream.db.a@1"})
        answer = site.warden.audit_downstream("stream.db.a@1")
        assert [one["snapshot_id"] for one in answer["downstream"]] == [made.current_snapshot().snapshot_id]  # type: ignore[union-attr]
        assert site.warden.audit_downstream("stream.db.b@1")["total"] == 0


def test_who_is_behind_an_overwrite(lake: Lake) -> None:
    table = lake.catalog().load_table("db.raw")
    table.overwrite(ROWS, snapshot_properties=BY_HAND)
    number = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    (found,) = lake.warden.audit_who(str(number))
    assert (found["operator"], found["ticket"], found["trigger"]) == ("j.smith", "T-3", "incident-response")
    data = table.inspect.files()["file_path"][0].as_py()
    (found,) = lake.warden.audit_who(data)
    assert found["snapshot"] == f"lake.db.raw@{number}"
    assert found["operator"] == "j.smith"


def test_graphs_are_whole_and_names_cannot_break_out(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, text = tmp_path / "graph.svg", tmp_path / "graph.dot"
    base = ["audit", "downstream", str(lake.raw), "--config", lake.config()]
    assert main([*base, "--graph", str(picture)]) == 0
    told = capsys.readouterr().out
    assert "2 snapshots were made from" in told
    assert f"lake.db.mart@{lake.mart}" in told
    drawing = ET.fromstring(picture.read_text())
    assert len(drawing.findall(".//{*}rect")) == 3
    assert len([one for one in drawing.findall(".//{*}path") if "edge" in str(one.get("class"))]) == 2
    assert main([*base, "--graph", str(text), "--output", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["downstream"][0]["snapshot"] == f"lake.db.clean@{lake.clean}"
    assert text.read_text().count("->") == 2
    assert main([*base, "--graph", "graph.png"]) == 64
    assert main([*base, "--graph", str(tmp_path / "nowhere" / "a.svg")]) == 64


def test_the_report_draws_lineage(lake: Lake, tmp_path: Path) -> None:
    lake.warden.report(str(tmp_path / "page.html"), with_forecast=False)
    page = (tmp_path / "page.html").read_text()
    assert "What is made from what" in page
    assert page.count('class="box') == 3


def test_text_of_origin_and_who(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "origin", f"lake.db.clean@{lake.clean}", "--config", lake.config()]) == 0
    told = capsys.readouterr().out
    assert "id: cleaner" in told
    assert f"lake.db.raw@{lake.raw}" in told
    assert main(["audit", "who", str(lake.raw), "--config", lake.config()]) == 0
    assert "outcome: append" in capsys.readouterr().out
