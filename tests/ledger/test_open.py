"""Opening a ledger: migrations, several processes at once, and databases that must be refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from lakewarden.ledger.connection import connect
from lakewarden.ledger.database import Ledger, open_ledger
from lakewarden.ledger.schema import REVISION, VERSION_TABLE, metadata
from lakewarden.model.clock import SystemClock
from lakewarden.model.errors import ConfigError, StateError
from tests.ledger.samples import started
from tests.support.ledger import SteppedClock

OPEN = """
import sys
from lakewarden.ledger.database import open_ledger
from lakewarden.model.clock import SystemClock
sys.stdin.readline()
with open_ledger(sys.argv[1], SystemClock()) as ledger:
    print(ledger.switches.deployment_id())
"""


def test_migrating_twice_changes_nothing(ledger: Ledger, ledger_url: str, clock: SteppedClock) -> None:
    started(ledger)
    with open_ledger(ledger_url, clock) as again:
        assert again.runs.get("run-1") == ledger.runs.get("run-1")


def test_migrations_make_exactly_the_schema(ledger: Ledger, ledger_url: str, clock: SteppedClock) -> None:
    connections = connect(ledger_url, clock)
    with connections.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    connections.close()


def test_the_newest_revision_is_the_one_the_code_names() -> None:
    config = Config()
    config.set_main_option("script_location", "lakewarden.ledger:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == REVISION


@pytest.mark.parametrize("entries", [0, 1])
def test_a_journal_of_an_older_schema_is_never_rewritten(ledger_url: str, clock: SteppedClock, entries: int) -> None:
    connections = connect(ledger_url, clock)
    with connections.write() as connection:
        config = Config()
        config.set_main_option("script_location", "lakewarden.ledger:migrations")
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
        if entries:
            actor = "'ada', 'host-1', 'manual', '2026-03-01T12:00:00.000000+00:00'"
            row = "'r', 0, 'intent', 0, '2026-03-01T12:00:00.000000+00:00', 1, 1, 'a', 'b'"
            connection.execute(
                text(
                    "INSERT INTO lw_runs (run_id, job, status, operator, worker, trigger, started_at) "
                    f"VALUES ('r', 'j', 'done', {actor})"
                )
            )
            connection.execute(
                text(
                    "INSERT INTO lw_journal (run_id, seq, kind, batch_no, at, count, total_bytes, prev_hash, hash) "
                    f"VALUES ({row})"
                )
            )
    if entries:
        with pytest.raises(StateError, match="unreleased") as refused:
            open_ledger(ledger_url, clock)
        assert "new one" in refused.value.hint
        with connections.read() as connection:
            assert connection.execute(text("SELECT hash FROM lw_journal")).scalar() == "b"
            assert connection.execute(text("SELECT count(*) FROM lw_outcomes")).scalar() == 0
    else:
        open_ledger(ledger_url, clock).close()
    connections.close()


def test_two_processes_may_open_an_empty_database_at_once(ledger_url: str) -> None:
    if ledger_url.startswith("sqlite"):
        Path(ledger_url.removeprefix("sqlite:///")).parent.mkdir()
    command = [sys.executable, "-c", OPEN, ledger_url]
    pipe = subprocess.PIPE
    children = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [child.communicate(timeout=60)[0].strip() for child in children]
    assert [child.returncode for child in children] == [0] * 4
    assert len(set(answers)) == 1
    assert answers[0]


def test_a_database_newer_than_the_code_is_refused(ledger_url: str, clock: SteppedClock) -> None:
    open_ledger(ledger_url, clock).close()
    engine = create_engine(ledger_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(StateError, match="9999") as refused:
        open_ledger(ledger_url, clock)
    assert "Upgrade Lakewarden" in refused.value.hint
    with engine.begin() as connection:
        assert connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() == "9999"
    engine.dispose()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path, clock: SteppedClock) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(StateError, match="not a database"):
        open_ledger(f"sqlite:///{path}", clock)
    assert path.read_bytes() == b"not a database, " * 100


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path, clock: SteppedClock) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StateError):
        open_ledger(f"sqlite:///{tmp_path}/file/ledger.db", clock)


def test_a_server_that_does_not_answer_is_refused_without_showing_the_password(clock: SteppedClock) -> None:
    with pytest.raises(StateError) as refused:
        open_ledger("postgresql://lake:s3cret@127.0.0.1:1/state", clock)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("url", ["mysql://h/db", "sqlite://", "sqlite:///:memory:", "nonsense"])
def test_other_addresses_are_a_mistake_in_the_settings(url: str, clock: SteppedClock) -> None:
    with pytest.raises(ConfigError, match=r"state\.database"):
        open_ledger(url, clock)


def test_sqlite_is_set_to_survive_power_loss(tmp_path: Path) -> None:
    open_ledger(f"sqlite:///{tmp_path}/l.db", SystemClock()).close()
    connections = connect(f"sqlite:///{tmp_path}/l.db", SystemClock())
    names = ("journal_mode", "synchronous", "foreign_keys")
    with connections.write() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
    connections.close()
    assert found == ["wal", 2, 1]
