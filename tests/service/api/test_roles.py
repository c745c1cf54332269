"""Every route has a role, and lets nobody through who has not: read from the application itself, so that no new one is forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from lakewarden.model.service import Role
from lakewarden.service import access
from lakewarden.service.app import create_app, routers
from lakewarden.service.service import Service
from tests.support.service import BASE, bearer, service_in, token

# For everybody: what a probe asks, what a page without a name needs, and the description of the API.
EVERYBODY = {"/livez", "/readyz", "/login", "/logout", "/theme", "/api/openapi.json"}
ROLES = {access.viewer: Role.VIEWER, access.operator: Role.OPERATOR, access.approver: Role.APPROVER}
APPROVES = re.compile(r"/plans/\{plan_id\}/(approve|reject|decide)")
READS = {"GET", "HEAD"}


def needs(dependant: Dependant) -> Iterator[Role]:
    for inner in dependant.dependencies:
        if inner.call in ROLES:
            yield ROLES[inner.call]
        yield from needs(inner)


def routes() -> list[tuple[str, str, Role | None]]:
    """Every route of the application by method and path, with the role that it asks for."""
    found: list[tuple[str, str, Role | None]] = []
    for route in (route for router in routers() for route in router.routes):
        assert isinstance(route, APIRoute), f"{route} is no route that has a role"
        role = max(needs(route.dependant), key=list(Role).index, default=None)
        found += [(method, route.path_format, role) for method in sorted(route.methods)]
    return found


ROUTES = routes()
IDS = [f"{method} {path}" for method, path, _ in ROUTES]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[Service, TestClient, dict[Role, dict[str, str]]]:
    service = service_in(tmp_path_factory.mktemp("roles"), "[service]\nanonymous_read = false\n")
    client = TestClient(create_app(service), base_url=BASE, raise_server_exceptions=False, follow_redirects=False)
    return service, client, {role: dict(bearer(token(service, role))) for role in Role}


@pytest.mark.parametrize(("method", "path", "role"), ROUTES, ids=IDS)
def test_every_route_has_the_role_that_fits(method: str, path: str, role: Role | None) -> None:
    if path in EVERYBODY or path.startswith("/static"):
        assert role is None
        return
    assert role is not None, "a route for everybody has to be named in EVERYBODY"
    if APPROVES.search(path):
        assert role is Role.APPROVER
    elif method in READS:
        assert role is Role.VIEWER
    else:
        assert role in (Role.OPERATOR, Role.APPROVER)


@pytest.mark.parametrize(("method", "path", "role"), [one for one in ROUTES if one[2] is not None])
def test_a_role_opens_what_it_should_and_nothing_else(method: str, path: str, role: Role, served: Any) -> None:
    _, client, tokens = served
    place = re.sub(r"\{[^}]*\}", "nosuch", path)
    # A page asks for a name instead; a program is told.
    nobody = client.request(method, place, headers={"accept": "application/json"})
    assert nobody.status_code == 401 or (nobody.status_code == 303 and nobody.headers["location"].startswith("/login"))
    for having, headers in tokens.items():
        answer = client.request(method, place, headers=headers)
        if having.allows(role):
            assert answer.status_code not in (401, 403, 500), answer.text
        else:
            assert answer.status_code == 403, f"{having}: {answer.text}"


def test_there_are_routes_of_every_kind(served: Any) -> None:
    """What the tests above go through is really there, and nothing comes in beside the routers."""
    _, client, _ = served
    routed = {id(route) for router in routers() for route in router.routes}
    direct = [route for route in client.app.routes if id(route) not in routed]
    assert len(client.app.routes) == len(routed) + len(direct)
    assert {getattr(route, "path", "") for route in direct} <= {"/api/openapi.json", "/static"}
    paths = {path for _, path, _ in ROUTES}
    assert {"/metrics", "/livez", "/api/v1/maintenance", "/api/v1/plans/{plan_id}/approve"} <= paths
    assert {role for _, _, role in ROUTES} == {None, *Role}
