"""SQL catalogs: opening never makes anything, what is not there is never an empty catalog, and no lock is waited for long."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import create_engine, text

from lakewarden.formats.iceberg import open_format
from lakewarden.formats.iceberg.catalog import sql
from lakewarden.model.errors import (
    CatalogMissingError,
    CatalogUnavailableError,
    DoubtfulCommitError,
    PointerMissingError,
)
from lakewarden.model.format import Format
from lakewarden.model.table import Pointer, TableState
from lakewarden.storage.stores import Stores
from tests.support.deployments import sqlite_properties
from tests.support.lakes import small_lake, write_table

NOW = datetime.now(UTC)
SOON = 20.0


def opened(properties: dict[str, str]) -> Format:
    return open_format("lake", properties, Stores(), lambda *_: None)


def pointers(format_: Format) -> dict[str, Pointer]:
    return {pointer.identifier: pointer for pointer in format_.pointers()}


def states(format_: Format) -> dict[str, TableState]:
    return {name: format_.load(pointer, NOW) for name, pointer in pointers(format_).items()}


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    """A catalog of two tables."""
    return small_lake(tmp_path, ("sales.orders", "web.clicks")).properties


def change(tmp_path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as connection, connection:
        connection.execute(statement, values)


class TestNotThere:
    @pytest.mark.parametrize("spelling", ["sqlite:///{}", "sqlite+pysqlite:///{}", "sqlite:///file:{}?uri=true"])
    def test_a_missing_file_is_not_made(self, tmp_path: Path, spelling: str) -> None:
        """As when the mount that held it is gone."""
        missing = sqlite_properties(tmp_path) | {"uri": spelling.format(tmp_path / "catalog.db")}
        with pytest.raises(CatalogMissingError, match=r"catalog\.db"):
            opened(missing).pointers()
        assert list(tmp_path.iterdir()) == []

    def test_a_file_that_goes_while_the_catalog_is_open(self, tmp_path: Path, properties: dict[str, str]) -> None:
        found = opened(properties)
        assert len(found.pointers()) == 2
        (tmp_path / "catalog.db").rename(tmp_path / "moved.db")
        with pytest.raises(CatalogUnavailableError):
            found.pointers()
        assert not (tmp_path / "catalog.db").exists()
        (tmp_path / "moved.db").rename(tmp_path / "catalog.db")
        assert len(found.pointers()) == 2

    def test_another_file_in_its_place_is_read_and_not_the_open_one(
        self, tmp_path: Path, properties: dict[str, str]
    ) -> None:
        """A database that was restored from a backup: a connection kept open would show the old one for ever."""
        found = opened(properties)
        assert len(found.pointers()) == 2
        with (
            closing(sqlite3.connect(tmp_path / "other.db")) as copy,
            closing(sqlite3.connect(tmp_path / "catalog.db")) as source,
        ):
            source.backup(copy)
            copy.execute("DELETE FROM iceberg_tables WHERE table_name = 'clicks'")
            copy.commit()
        (tmp_path / "other.db").replace(tmp_path / "catalog.db")
        assert list(pointers(found)) == ["lake.sales.orders"]

    @pytest.mark.parametrize("content", ["empty file", "other tables", "memory"])
    def test_a_database_without_a_catalog_in_it(self, tmp_path: Path, content: str) -> None:
        database = tmp_path / "catalog.db"
        with closing(sqlite3.connect(database)) as connection:
            if content == "other tables":
                connection.execute("CREATE TABLE something (else_ TEXT)")
        database.touch()
        before = database.read_bytes()
        given = sqlite_properties(tmp_path) | ({"uri": "sqlite:///:memory:"} if content == "memory" else {})
        with pytest.raises(CatalogMissingError, match="iceberg_tables"):
            opened(given).pointers()
        assert database.read_bytes() == before

    def test_a_database_that_lost_its_tables_later(self, tmp_path: Path, properties: dict[str, str]) -> None:
        found = opened(properties)
        found.pointers()
        change(tmp_path, "DROP TABLE iceberg_tables")
        with pytest.raises(CatalogUnavailableError):
            found.pointers()

    def test_an_empty_postgresql_database(self, tmp_path: Path, postgres_url: str) -> None:
        uri = postgres_url.replace("postgresql:", "postgresql+psycopg:")
        with pytest.raises(CatalogMissingError, match="iceberg_tables"):
            opened(sqlite_properties(tmp_path) | {"uri": uri}).pointers()
        engine = create_engine(uri)
        with engine.connect() as connection:
            assert connection.execute(text("SELECT count(*) FROM pg_tables WHERE schemaname='public'")).scalar() == 0
        engine.dispose()

    def test_an_older_catalog_is_read_and_not_migrated(self, tmp_path: Path, properties: dict[str, str]) -> None:
        """Whatever the properties ask for: they are PyIceberg's, and whoever looks does not write."""
        change(tmp_path, "ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
        for given in (properties, properties | {"schema_version": "v1"}):
            assert {state.refusal for state in states(opened(given)).values()} == {None}
        with closing(sqlite3.connect(tmp_path / "catalog.db")) as connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(iceberg_tables)")]
        assert "iceberg_type" not in columns


@pytest.mark.parametrize("pointer", [None, ""], ids=["null", "empty"])
def test_a_row_without_a_pointer_is_a_table_that_cannot_be_seen(
    tmp_path: Path, properties: dict[str, str], pointer: str | None
) -> None:
    change(tmp_path, "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'clicks'", pointer)
    found = states(opened(properties))
    assert found["lake.sales.orders"].refusal is None
    unseen = found["lake.web.clicks"]
    assert unseen.refusal is not None
    assert (unseen.refusal.code, unseen.files, unseen.metadata_location) == (PointerMissingError.code, (), "")
    assert "lake.web.clicks" in unseen.refusal.message


def test_a_view_is_no_table(tmp_path: Path, properties: dict[str, str]) -> None:
    change(
        tmp_path,
        "UPDATE iceberg_tables SET iceberg_type = 'VIEW', metadata_location = NULL WHERE table_name = 'clicks'",
    )
    assert list(pointers(opened(properties))) == ["lake.sales.orders"]


def test_names_with_dots_are_two_tables(tmp_path: Path) -> None:
    lake = small_lake(tmp_path, ())
    catalog = lake.catalog()
    for namespace in (("a",), ("a", "b")):
        catalog.create_namespace(namespace)
    one, other = (write_table(catalog, name) for name in (("a", "b.c"), ("a", "b", "c")))  # type: ignore[arg-type]
    catalog.close()
    found = states(opened(lake.properties))
    assert {name: state.uuid for name, state in found.items()} == {
        "lake.a.`b.c`": str(one.metadata.table_uuid),
        "lake.a.b.c": str(other.metadata.table_uuid),
    }
    versions = opened(lake.properties).expirer._versions()  # type: ignore[union-attr]
    assert versions.current("a.`b.c`").location == one.metadata_location
    assert versions.current("a.b.c").location == other.metadata_location


class TestLocked:
    def test_sqlite(self, tmp_path: Path, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql, "LOCK_SECONDS", 1)
        with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            began = time.monotonic()
            with pytest.raises(CatalogUnavailableError, match="locked"):
                opened(properties).pointers()
            assert time.monotonic() - began < SOON
            writer.execute("ROLLBACK")
        assert len(opened(properties).pointers()) == 2

    @pytest.fixture
    def on_postgres(self, tmp_path: Path, postgres_url: str) -> dict[str, str]:
        uri = postgres_url.replace("postgresql:", "postgresql+psycopg:")
        properties = sqlite_properties(tmp_path) | {"uri": uri}
        catalog = SqlCatalog("lake", **properties)
        catalog.create_namespace("db")
        write_table(catalog, "db.t")
        catalog.close()
        return properties

    def test_postgresql(self, on_postgres: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql, "LOCK_SECONDS", 1)
        found = opened(on_postgres)
        assert len(found.pointers()) == 1
        engine = create_engine(on_postgres["uri"])
        with engine.connect() as owner:
            owner.execute(text("LOCK TABLE iceberg_tables IN ACCESS EXCLUSIVE MODE"))
            for asked in (found, opened(on_postgres)):
                began = time.monotonic()
                with pytest.raises(CatalogUnavailableError, match="lock timeout"):
                    asked.pointers()
                assert time.monotonic() - began < SOON
            owner.rollback()
        engine.dispose()
        assert len(found.pointers()) == 1

    def test_a_query_that_takes_for_ever(self, on_postgres: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql, "STATEMENT_SECONDS", 1)
        engine = create_engine(on_postgres["uri"])
        with engine.begin() as owner:
            owner.execute(text("ALTER TABLE iceberg_tables RENAME TO kept"))
            owner.execute(text("CREATE VIEW iceberg_tables AS SELECT * FROM kept WHERE pg_sleep(30)::text = ''"))
            owner.execute(text("ANALYZE kept"))
        engine.dispose()
        began = time.monotonic()
        with pytest.raises(CatalogUnavailableError, match="statement timeout"):
            opened(on_postgres).pointers()
        assert time.monotonic() - began < SOON


def test_a_catalog_that_cannot_be_written_is_still_read(tmp_path: Path, properties: dict[str, str]) -> None:
    (tmp_path / "catalog.db").chmod(0o444)
    assert len(opened(properties).pointers()) == 2
    assert os.stat(tmp_path / "catalog.db").st_mode & 0o777 == 0o444


def test_one_table_asked_for_alone_is_the_one_among_all(properties: dict[str, str]) -> None:
    found = opened(properties)
    for name, pointer in pointers(found).items():
        assert found.pointer(name) == pointer
    for unknown in ("lake.sales.nothing", "lake.nowhere.orders", "lake.orders", "lake.`sales.orders`"):
        assert found.pointer(unknown) is None


def test_a_catalog_that_is_gone_is_not_a_table_that_is_gone(tmp_path: Path, properties: dict[str, str]) -> None:
    found = opened(properties)
    (tmp_path / "catalog.db").unlink()
    with pytest.raises(CatalogUnavailableError):
        found.pointer("lake.sales.orders")


def test_a_commit_whose_catalog_went_away_is_not_called_undone(tmp_path: Path, properties: dict[str, str]) -> None:
    """The swap was made, its answer is lost, and nobody can be asked."""
    versions: Any = opened(properties).expirer._versions()  # type: ignore[union-attr]
    before = versions.current("sales.orders")
    swap = versions._swap

    def made_and_gone(*asked: Any) -> bool:
        swap(*asked)
        (tmp_path / "catalog.db").rename(tmp_path / "away.db")
        raise ConnectionError("the connection was lost")

    versions._swap = made_and_gone
    first = int(before.document["snapshots"][0]["snapshot-id"])
    with pytest.raises(DoubtfulCommitError, match="may or may not"):
        versions.expire("sales.orders", before, {first}, set(), NOW)
    (tmp_path / "away.db").rename(tmp_path / "catalog.db")
    assert versions.current("sales.orders").location != before.location
