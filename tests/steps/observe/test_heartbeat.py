"""What a writer's heartbeat covers, and what ends it: neither a database that is away, nor another of the same name."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.ledger.fleet import FleetRow
from lakewarden.ledger.heartbeats import Heartbeats
from lakewarden.model.errors import CatalogUnavailableError, StateBusyError, StateError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat
from lakewarden.service.service import Service
from lakewarden.steps.observe import heartbeat as module
from tests.support.lakes import small_lake
from tests.support.service import service_in

TABLE, WRITER = "lake.sales.orders", "nightly"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    lake = small_lake(tmp_path / "lake", ("sales.orders",))
    catalog = lake.catalog()
    with catalog.load_table("sales.orders").transaction() as change:
        change.set_properties({"write.data.path": f"file://{tmp_path}/elsewhere/orders"})
    catalog.close()
    said = ", ".join(f'{name} = "{value}"' for name, value in lake.properties.items())
    found = service_in(tmp_path, f'[catalogs.lake]\nformat = "iceberg"\nproperties = {{ {said} }}\n')
    yield found
    found.warden.close()


@pytest.fixture
def places(tmp_path: Path) -> set[str]:
    return {f"file://{tmp_path}/lake/warehouse/sales/orders/", f"file://{tmp_path}/elsewhere/orders/"}


def prefixes(service: Service) -> set[str]:
    return {beat.prefix for beat in service.ledger.heartbeats.live(service.clock.now())}


def test_it_covers_every_directory_that_the_table_is_written_to(service: Service, places: set[str]) -> None:
    with service.warden.heartbeat(TABLE, writer=WRITER):
        assert prefixes(service) == places
    assert service.ledger.heartbeats.every() == []
    with service.warden.heartbeat(TABLE, writer=WRITER, prefix="s3://lake/staging"):
        assert prefixes(service) == {"s3://lake/staging/"}


def test_a_beat_from_elsewhere_covers_them_too(service: Service, places: set[str]) -> None:
    """Also where the writer has beaten for a directory of its own before."""
    service.warden.beat(TABLE, writer=WRITER, prefix="s3://lake/staging")
    assert prefixes(service) == {"s3://lake/staging/"}
    first = service.warden.beat(TABLE, writer=WRITER)
    assert first[0].prefix.endswith("/warehouse/sales/orders/"), "its location comes first"
    assert prefixes(service) == {*places, "s3://lake/staging/"}
    again = service.warden.beat(TABLE, writer=WRITER)
    assert {beat.prefix: beat.since for beat in again} == {beat.prefix: beat.since for beat in first}


def test_the_catalogs_are_asked_for_the_first_beat(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.warden.beat(TABLE, writer=WRITER)
    known = prefixes(service)
    real = module.places_of

    def away(state: Any) -> list[str]:
        raise CatalogUnavailableError("the catalog does not answer")

    monkeypatch.setattr(module, "places_of", away)
    assert {beat.prefix for beat in service.warden.beat(TABLE, writer=WRITER)} == known, "what was begun goes on"
    with pytest.raises(CatalogUnavailableError):
        service.warden.beat(TABLE, writer="another")
    monkeypatch.setattr(module, "places_of", real)
    now = service.clock.now()
    row = dict.fromkeys(FleetRow.__dataclass_fields__) | {
        "identifier": TABLE, "catalog": "lake", "namespace": "sales", "tenant": "sales", "format": "iceberg", "uuid": "u",
        "health": "healthy", "observed_at": now, "codes": [], "snapshots": 1, "refs": 1, "reclaimable_bytes": 0,
        "detail": {"location": next(place for place in known if "warehouse" in place)},
    }  # fmt: skip
    service.ledger.fleet.replace([FleetRow(**row)], now)
    monkeypatch.setattr(type(service.warden), "_table", lambda *_: pytest.fail("the catalogs were asked again"))
    assert {beat.prefix for beat in service.warden.beat(TABLE, writer=WRITER)} == known


def test_a_database_that_is_away_for_a_while_ends_no_heartbeat(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer goes on for days; whoever let its heartbeat end with the first locked database would delete its files."""
    real, failed, again = Heartbeats.beat_all, threading.Event(), threading.Event()
    errors: list[BaseException] = [StateBusyError("locked"), StateError("away"), OSError("no space left")]

    def beat(self: Heartbeats, beats: Sequence[Heartbeat]) -> Any:
        if threading.current_thread().name.startswith("heartbeat"):
            if errors:
                failed.set()
                raise errors.pop()
            again.set()
        return real(self, beats)

    monkeypatch.setattr(Heartbeats, "beat_all", beat)
    with service.warden.heartbeat(TABLE, writer=WRITER, ttl_seconds=1):
        assert failed.wait(20)
        assert again.wait(20), "it was never written again"
    assert service.ledger.heartbeats.every() == []


def test_the_end_of_a_writer_is_not_the_fault_of_the_database(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(self: Heartbeats, one: Heartbeat) -> None:
        raise StateBusyError("locked")

    monkeypatch.setattr(Heartbeats, "end_all", end)
    with service.warden.heartbeat(TABLE, writer=WRITER):
        pass
    assert service.ledger.heartbeats.every(), "it falls silent by itself"


def test_of_two_that_go_by_one_name_neither_ends_the_other(service: Service, places: set[str]) -> None:
    """Two processes of one machine, or one that was started anew while the first still writes."""
    first = service.warden.heartbeat(TABLE, writer=WRITER)
    with first:
        with service.warden.heartbeat(TABLE, writer=WRITER):
            pass
        assert prefixes(service) == places
        with service.warden.heartbeat(TABLE, writer=WRITER, prefix="s3://lake/staging"):
            pass
        assert prefixes(service) == places, "another directory's heartbeat is another one"
    assert prefixes(service) <= places, "in doubt it protects until it runs out, and for the grace"


def test_a_store_whose_clock_is_behind_makes_no_file_older_than_its_writer(service: Service) -> None:
    now = service.clock.now()
    beat = Heartbeat(WRITER, TABLE, "s3://lake/orders/", now, now, 300)
    assert beat.covers_from == now - MARGINS.clock_skew
    assert MARGINS.clock_skew >= timedelta(minutes=5)
