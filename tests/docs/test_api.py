"""Every route of the API has its entry, with the role that it really asks for."""

from __future__ import annotations

from tests.docs.pages import DOCS, code_in, rows, text_of
from tests.service.api.test_roles import ROUTES


def test_every_route_has_its_entry_and_its_role() -> None:
    said = {code_in(cells[0]): cells[1] for cells in rows(text_of(DOCS / "how-to" / "api.md"), "route")}
    api = {f"{method} {path}": str(role or "everybody") for method, path, role in ROUTES if path.startswith("/api/v1")}
    probes = {"GET /livez": "everybody", "GET /readyz": "everybody"}
    assert said == api | probes
