"""Questions that are no questions, and names that others chose to do harm: each gets a clear answer, none a traceback."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.cli.main import main
from tests.jobs.history.archived import HISTORY, ROWS, Site

HOSTILE = "</title><script>alert(1)</script>\"'\\\n\r\t\x01\x0b\x1b[31m\x7f\u0085\u2028\ufffe\U0001f600"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site.at(tmp_path) as found:
        yield found


NO_SUBJECTS = [
    "", " ", "@", "@5", "a@", "lake.db.events@", "99999999999999999999", "lake.db.events@99999999999999999999",
    "-9223372036854775809", "5", "-1", "0", "lake.db.nothing@5", "lake.db.events@5", "`@5", "lake.`db@5", "1.5", "0x10",
    "\u0665", "s3://", "s3://bucket", "s3://bucket/", "s3://nobodys-bucket/a", "file:///nowhere/at/all.parquet",
    "/nowhere.parquet", "nowhere.parquet", "file://", "gopher://a/b", "http://[::1/x", "file:///a%zz", "a\x00b",
    "file:///a\x00b", "s3://b/a\nb", "--", "*", "lake.db.*@5", "file:///" + "a" * 500, "memory://nowhere/x",
]  # fmt: skip


@pytest.mark.parametrize("question", ["origin", "downstream", "who"])
def test_what_is_no_subject_is_said_so(site: Site, capsys: pytest.CaptureFixture[str], question: str) -> None:
    site.iceberg("events", 1)
    config = site.config()
    for asked in NO_SUBJECTS:
        code = main(["audit", question, "--config", config, "--", asked])
        told = capsys.readouterr()
        if question == "who" and code == 0:
            assert "mentions this file" in told.out, asked  # of a file that never was there is nothing to tell
            continue
        assert code in (10, 64), (asked, told.err)
        assert "LW-" in told.err or "Usage" in told.err, asked
        assert "Traceback" not in told.err, asked


def test_graphs_of_hostile_names_are_whole_and_steer_nothing(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = site.iceberg("events", 1, **{"writer.id": HOSTILE})
    first = table.refresh().snapshots()[0].snapshot_id
    table.append(ROWS, snapshot_properties={"writer.id": HOSTILE, "input.snapshot_ids": str(first)})
    for archived in (False, True):
        if archived:
            assert site.run(HISTORY).changed == {"rows": 2}
        base = ["audit", "downstream", str(first), "--config", site.config()]
        picture, text = tmp_path / "graph.svg", tmp_path / "graph.dot"
        assert main([*base, "--graph", str(picture)]) == 0
        out = capsys.readouterr().out
        assert not set(out) & set("\x01\x0b\x1b\x7f\u0085\u2028")
        drawing = ET.fromstring(picture.read_text(encoding="utf-8"))
        assert len(drawing.findall(".//{*}rect")) == 2
        assert not drawing.findall(".//{*}script")
        assert main([*base, "--graph", str(text), "--output", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["downstream"][0]["writer"]["id"] == HOSTILE
        lines = text.read_text(encoding="utf-8").strip().split("\n")
        assert len(lines) == 7, "one line a box, and one an edge, whatever a name holds and wherever it was read"
    page = tmp_path / "report.html"
    site.warden.report(str(page), with_forecast=False)
    assert "<script>alert" not in page.read_text(encoding="utf-8")


def test_half_a_letter_in_a_summary_is_its_own_tables_matter(site: Site) -> None:
    """JSON can say half of a letter pair, which no UTF-8 text can: the table is refused, and the others are archived."""
    site.iceberg("events", 1)
    odd = site.paimon("odd", 1)
    path = odd.path / "snapshot/snapshot-1"
    document = json.loads(path.read_text())
    document["properties"] = {"writer.id": "half"}
    path.write_text(json.dumps(document).replace('"half"', '"\\ud800"'))
    for job in ("lineage-check", HISTORY):
        plan = site.plan(job)
        assert plan.table("lake.db.events").refusal is None
        assert plan.refusal("stream.db.odd") == "LW-TABLE-010"
    assert site.apply(plan).changed == {"rows": 1}
