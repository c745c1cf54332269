"""What commands print of a real lake has the fields that the documentation names. No Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli.main import main
from lakewarden.model.health import MANY_SNAPSHOTS, ORPHAN_SHARE, SMALL_FILE_BYTES
from tests.docs.pages import DOCS, code_in, rows, sections, text_of
from tests.support.deployments import Deployed
from tests.support.lakes import Lake, small_lake

PAGE = DOCS / "commands.md"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return small_lake(tmp_path_factory.mktemp("documented") / "lake", ("sales.orders",))


@pytest.fixture(scope="module")
def config(lake: Lake) -> Path:
    return Path(Deployed(lake.base.parent, {lake.name: lake.properties}).config())


def asked(capsys: pytest.CaptureFixture[str], config: Path, *words: str) -> Any:
    """The JSON that a command prints."""
    capsys.readouterr()
    assert main([*words, "--config", str(config), "--output", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def fields(section: str) -> list[str]:
    return [code_in(cells[0]) for cells in rows(sections(PAGE)[section], "field")]


def shape_in(section: str, start: str) -> list[str]:
    """The names in a shape such as `{"runs": [{"run_id", "job"}]}`, in order."""
    found = re.search(rf"`(\{{{re.escape(start)}[^`]*)`", sections(PAGE)[section])
    assert found is not None
    return re.findall(r'"(\w+)"', found[1])


def test_doctor(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(asked(capsys, config, "doctor")) == fields("doctor")


def test_when_a_table_is_to_be_looked_at() -> None:
    """Every reason of the code, with its limit, stands on both pages that say when a table is healthy."""
    manual = next(
        cells[1]
        for cells in rows(text_of(DOCS / "how-to" / "forecast-and-report.md"), "status")
        if cells[0] == "to look at"
    )
    fields_of_doctor = next(cells[1] for cells in rows(sections(PAGE)["doctor"], "field") if "attention" in cells[0])
    limits = (
        f"{ORPHAN_SHARE * 100:.0f} %",
        f"{MANY_SNAPSHOTS:,} snapshots",
        f"below {SMALL_FILE_BYTES >> 20} MiB on average",
    )
    for told in (manual, fields_of_doctor):
        assert [limit for limit in limits if limit not in told] == []


def test_explain(lake: Lake, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = next((lake.base / "warehouse").rglob("*.parquet"))
    answer = asked(capsys, config, "explain", f"file://{data}")
    assert answer["status"] == "live"
    assert [name for name in fields("explain") if name in answer] == list(answer)


def test_tables_and_policy(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = asked(capsys, config, "tables")
    assert ["tables", *tables["tables"][0]] == shape_in("tables", '"tables"')
    policy = asked(capsys, config, "policy", "lake.sales.orders")
    assert {*policy, *policy["policy"]["batch_size"]} == set(shape_in("policy", '"table"'))
    assert policy["jobs"]["orphan-cleanup"] == policy["policy"]


def test_freeze_abandon_leases_and_audit(lake: Lake, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frozen = asked(capsys, config, "freeze", "--reason", "docs")
    assert list(frozen) == shape_in("freeze", '"frozen"')
    assert list(asked(capsys, config, "unfreeze")) == shape_in("unfreeze", '"frozen"')
    [metadata, *_] = (lake.base / "warehouse").rglob("*.metadata.json")
    (metadata.parent / "x.metadata.json").write_text('{"table-uuid": "some-uuid", "last-updated-ms": 1}')
    abandoned = asked(capsys, config, "abandon", "some-uuid", "--reason", "docs", "--yes")
    assert list(abandoned) == shape_in("abandon", '"abandoned"')
    assert list(asked(capsys, config, "abandon", "some-uuid", "--undo")) == shape_in("abandon", '"taken_back"')
    assert list(asked(capsys, config, "leases")) == ["leases"]
    assert list(asked(capsys, config, "runs")) == ["runs"]
    assert list(asked(capsys, config, "audit", "who", "file:///nowhere")) == ["uri", "entries"]
    assert list(asked(capsys, config, "audit", "verify")) == shape_in("audit verify", '"ok"')
