"""What the web side of the service works with, as one value."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.ledger.database import Ledger
from lakewarden.model.actor import Actor
from lakewarden.model.clock import Clock, SystemClock
from lakewarden.settings import Settings, load_settings
from lakewarden.settings.sections import Service as ServiceSection
from lakewarden.storage.stores import Stores
from lakewarden.warden import Warden
from lakewarden.wiring import Wiring


@dataclass(frozen=True, slots=True)
class Service:
    """The parts that web code may use: the ledger, and a Warden for reads that need no Spark and no listing.

    Whatever takes longer is a request in the ledger, which a runner takes up.
    """

    settings: Settings
    ledger: Ledger
    stores: Stores
    warden: Warden
    clock: Clock
    new_id: Callable[[], str]

    @property
    def section(self) -> ServiceSection:
        """What `[service]` says."""
        return self.settings.service

    @property
    def anonymous_read(self) -> bool:
        """Whether somebody without a token may look: only where nobody else can reach the service."""
        return self.section.anonymous_read and is_loopback(self.section.host)

    def actor(self, name: str, ticket: str | None = None) -> Actor:
        """The holder of a token, as runs and decisions record them."""
        return Actor(name, self.settings.worker.id, ticket=ticket)


def open_service(
    config: str | None = None, *, host: str | None = None, port: int | None = None, clock: Clock | None = None
) -> Service:
    """The service that a configuration file describes. Raises ConfigError, StateError."""
    settings = load_settings(config)
    said = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    if said:
        settings = settings.model_copy(update={"service": settings.service.model_copy(update=said)})
    return service_of(settings, clock or SystemClock())


def service_of(settings: Settings, clock: Clock) -> Service:
    """The service that these settings describe, with its ledger open."""
    wiring = Wiring(settings, clock)
    return Service(
        settings=settings,
        ledger=wiring.ledger,
        stores=wiring.stores,
        warden=Warden(wiring, settings),
        clock=clock,
        new_id=lambda: secrets.token_hex(8),
    )


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
