"""A service over a configuration in a temporary directory, its application, and a client that speaks to it in-process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi.testclient import TestClient

from lakewarden.model.clock import Clock, SystemClock
from lakewarden.model.service import Role
from lakewarden.service.app import create_app
from lakewarden.service.service import Service, service_of
from lakewarden.settings import load_settings

BASE = "http://127.0.0.1"


def service_in(folder: Path, more: str = "", *, clock: Clock | None = None, database: str | None = None) -> Service:
    """A service whose state lies in `folder`; `more` is TOML beside `[state]`."""
    said = f'database = "{database}"\n' if database else ""
    file = folder / "lakewarden.toml"
    file.write_text(f'[worker]\nid = "host-1"\n[state]\nlocation = "file://{folder}/state"\n{said}{more}', "utf-8")
    return service_of(load_settings(str(file), env={}), clock or SystemClock())


def client_of(service: Service) -> TestClient:
    """A browser or program that asks this service. Errors are answered, not raised."""
    return TestClient(create_app(service), base_url=BASE, raise_server_exceptions=False, follow_redirects=False)


def token(service: Service, role: Role, name: str | None = None) -> str:
    """A new token of a role."""
    return service.ledger.tokens.create(name or f"a-{role}", role, created_by="test")


def bearer(plaintext: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {plaintext}"}
