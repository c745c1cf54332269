"""Audit questions over real tables of both formats: live, expired and archived, across tables and catalogs."""

from __future__ import annotations

import json
import sqlite3
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lakewarden.cli.main import main
from lakewarden.ledger.archives import Archive
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import ArchiveDamagedError, NotFoundError, UsageError
from lakewarden.model.run import EXPIRED
from tests.jobs.history.archived import EXPIRY, HISTORY, ROWS, Site, committed_again, ids

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


@pytest.mark.parametrize("expired", [False, True])
def test_a_table_that_was_renamed_is_still_what_its_old_name_means(lake: Lake, expired: bool) -> None:
    """The commit that names it was made before, and so was the archive's row; whoever asks may know either name."""
    clean = f"lake.db.mart@{lake.mart}"
    lake.run(HISTORY)
    lake.catalog().rename_table("db.clean", "db.tidy")
    if expired:
        table = lake.catalog().load_table("db.tidy")
        table.append(ROWS)
        table.maintenance.expire_snapshots().by_id(lake.clean).commit()
    lake.close()
    for name in (f"lake.db.tidy@{lake.clean}", f"lake.db.clean@{lake.clean}", str(lake.clean)):
        assert lake.warden.audit_downstream(name)["tables"] == {"lake.db.mart": 1}
        (found,) = lake.warden.audit_origin(name)["origins"]
        assert found["state"] == ("archived" if expired else "live")
        assert len(lake.warden.audit_who(name)) == 1
    (found,) = lake.warden.audit_origin(clean)["origins"]
    (made_from,) = found["inputs"]
    assert made_from["snapshot"] == f"lake.db.{'clean' if expired else 'tidy'}@{lake.clean}"
    with pytest.raises(NotFoundError) as error:
        lake.warden.audit_origin(f"lake.db.raw@{lake.clean}")
    assert made_from["snapshot"] in str(error.value.hint)


def test_a_table_that_was_renamed_twice_is_found_by_the_name_in_between(lake: Lake) -> None:
    """No row of the snapshot has it: another one was archived while the table was called so."""
    lake.run(HISTORY)
    lake.catalog().rename_table("db.clean", "db.tidy")
    lake.catalog().load_table("db.tidy").append(ROWS)
    lake.close()
    lake.run(HISTORY)
    lake.catalog().rename_table("db.tidy", "db.neat")
    lake.close()
    for name in ("clean", "tidy", "neat"):
        (found,) = lake.warden.audit_origin(f"lake.db.{name}@{lake.clean}")["origins"]
        assert found["snapshot"] == f"lake.db.neat@{lake.clean}"
        assert lake.warden.audit_downstream(f"lake.db.{name}@{lake.clean}")["tables"] == {"lake.db.mart": 1}


class TestVerify:
    """Whoever can write into the database cannot make a run unsaid."""

    @staticmethod
    def problems(site: Site, *statements: str) -> list[str]:
        site.close()
        with closing(sqlite3.connect(site.base / "state" / "lakewarden.db")) as database, database:
            for statement in statements:
                database.execute(statement)
        report = site.warden.audit_verify()
        assert report["ok"] is not bool(report["problems"])
        return list(report["problems"])

    @pytest.mark.parametrize(
        "statements",
        [
            ["DELETE FROM lw_runs WHERE run_id = (SELECT run_id FROM lw_runs ORDER BY started_at DESC LIMIT 1)"],
            ["DELETE FROM lw_runs", "DELETE FROM lw_journal"],
            ["UPDATE lw_runs SET operator = 'eve', finished_at = NULL, status = 'stopped'"],
            ["UPDATE lw_runs SET operator = 'eve'"],
            ["UPDATE lw_steps SET detail = replace(detail, 'clean', 'other')"],
            ["DELETE FROM lw_steps WHERE step_id = (SELECT max(step_id) FROM lw_steps)"],
        ],
        ids=["last run", "every run", "an end that is taken back", "another name", "another step", "no last step"],
    )
    def test_what_was_taken_out_shows(self, lake: Lake, statements: list[str]) -> None:
        lake.run(HISTORY)
        lake.iceberg("clean2", 1)
        last = lake.run(HISTORY).run_id
        assert self.problems(lake) == []
        assert any(last in problem for problem in self.problems(lake, *statements))

    def test_a_run_that_is_gone_is_no_unknown_run(self, lake: Lake) -> None:
        gone = lake.run(HISTORY).run_id
        assert self.problems(lake, "DELETE FROM lw_runs")
        assert not lake.warden.audit_verify(gone)["ok"]
        with pytest.raises(NotFoundError):
            lake.warden.audit_verify("0000000000000000")


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


@pytest.mark.usefixtures("spark")
def test_a_file_of_a_table_that_was_made_anew_is_none_of_the_new_tables_commits(lake: Lake) -> None:
    """The old table's file waits to be deleted, and the new one has its name and commits since."""
    table = lake.catalog().load_table("db.raw")
    data = table.inspect.files()["file_path"][0].as_py()
    table.overwrite(ROWS)
    lake.sections["history"] = {}
    lake.later(24 * 10)
    lake.close()
    lake.run(EXPIRY)
    assert lake.warden._deployment.ledger.pending.find(data) is not None
    lake.catalog().drop_table("db.raw")
    lake.iceberg("raw", 1, **{"writer.id": "somebody-else"})
    with pytest.raises(NotFoundError):
        lake.warden.audit_origin(data)


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


def announced(site: Site, uuid: str, table: str, number: int) -> str:
    """A run of expiry has kept a table's metadata, and died."""
    ledger = site.warden._deployment.ledger
    ledger.runs.start("e1", EXPIRY, "p1", Actor("night", "w1", Trigger.SCHEDULE))
    ledger.archives.add(Archive("e1", table, uuid, "file:///kept", "0" * 64, (number,), site.clock.now()))
    return "e1"


def test_who_expired_a_snapshot_is_told_only_where_it_is_on_record(lake: Lake) -> None:
    """A run announced it and died; somebody else may have expired it since."""
    lake.run(HISTORY)
    table = lake.catalog().load_table("db.raw")
    run = announced(lake, str(table.metadata.table_uuid), "lake.db.raw", lake.raw)
    table.append(ROWS)
    table.maintenance.expire_snapshots().by_id(lake.raw).commit()
    lake.close()
    made, gone = lake.warden.audit_who(f"lake.db.raw@{lake.raw}")
    assert (made["outcome"], gone["run_id"]) == ("append", run)
    assert gone["outcome"].startswith("to be expired; it is not on record")
    lake.warden._deployment.ledger.runs.step(run, EXPIRED, {"table": "lake.db.raw", "changes": {"snapshots": 1}})
    assert [one["outcome"] for one in lake.warden.audit_who(f"lake.db.raw@{lake.raw}")] == ["append", "expired"]


def test_who_expired_an_id_that_was_committed_twice(tmp_path: Path) -> None:
    """The first snapshot 3 was rolled back. The run met the second."""
    with Site.at(tmp_path) as site:
        table = site.paimon("clicks", 3)
        site.run(HISTORY)
        committed_again(table, 3)
        site.run(HISTORY)
        (uuid,) = {row["uuid"] for row in site.rows()}
        run = announced(site, uuid, "stream.db.clicks", 3)
        site.warden._deployment.ledger.runs.step(run, EXPIRED, {"table": "stream.db.clicks", "changes": {}})
        committed_again(table, 3)
        site.close()
        told = [(one["outcome"], one.get("run_id")) for one in site.warden.audit_who("stream.db.clicks@3")]
        assert told.count(("expired", run)) == 1
        assert len([one for one in told if one[1] == run]) == 2  # of the first it is not known


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
