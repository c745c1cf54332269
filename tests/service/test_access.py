"""Who may do what: tokens, sessions, forms, and what an answer carries."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from starlette.routing import Mount, Route

from lakewarden.ledger import connection
from lakewarden.model.actor import Actor
from lakewarden.model.service import RequestKind, Role
from lakewarden.service.access import COOKIE, Approver, Operator, User, Viewer
from lakewarden.service.app import create_app
from lakewarden.service.service import Service
from tests.support.service import BASE, bearer, service_in, token

router = APIRouter()


@router.get("/api/look")
def look(user: Viewer) -> str:
    return user.name


@router.post("/api/change")
def change(user: Operator) -> str:
    return user.name


@router.post("/approve")
def approve(user: Approver) -> str:
    return user.name


@router.get("/broken")
def broken() -> None:
    raise RuntimeError("password=hunter2")


def opened(folder: Path, more: str = "") -> tuple[Service, TestClient]:
    service = service_in(folder, more)
    app = create_app(service)
    app.include_router(router)
    return service, TestClient(app, base_url=BASE, raise_server_exceptions=False, follow_redirects=False)


@pytest.mark.parametrize(
    ("role", "statuses"),
    [
        (None, (200, 401, 401)),
        (Role.VIEWER, (200, 403, 403)),
        (Role.OPERATOR, (200, 200, 403)),
        (Role.APPROVER, (200, 200, 200)),
    ],
)
def test_each_role_may_what_the_ones_before_it_may(
    tmp_path: Path, role: Role | None, statuses: tuple[int, int, int]
) -> None:
    service, client = opened(tmp_path)
    headers = dict(bearer(token(service, role))) if role else {}
    asked = (("GET", "/api/look"), ("POST", "/api/change"), ("POST", "/approve"))
    assert tuple(client.request(*one, headers=headers).status_code for one in asked) == statuses


@pytest.mark.parametrize(
    "more", ["[service]\nanonymous_read = false\n", '[service]\nhost = "0.0.0.0"\n'], ids=["said so", "reachable"]
)
def test_nobody_looks_without_a_token_unless_alone_with_the_machine(tmp_path: Path, more: str) -> None:
    service, client = opened(tmp_path, more)
    refused = client.get("/api/look")
    assert refused.status_code == 401
    assert refused.json()["code"] == "LW-SERVICE-001"
    assert client.get("/api/look", headers=bearer(token(service, Role.VIEWER))).status_code == 200


def test_a_wrong_token_is_refused_even_where_nobody_needs_one(tmp_path: Path) -> None:
    _, client = opened(tmp_path)
    assert client.get("/api/look", headers=bearer("lw_nonsense")).status_code == 401
    assert client.get("/api/look", headers={"Authorization": "Basic YTpi"}).status_code == 401


def logged_in(service: Service, client: TestClient, role: Role) -> str:
    answer = client.post("/login", data={"token": token(service, role), "next": "/tables"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/tables")
    said = answer.headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    session = service.ledger.tokens.session(client.cookies[COOKIE])
    assert session is not None
    return session.csrf


def test_a_session_changes_things_only_from_its_own_forms(tmp_path: Path) -> None:
    service, client = opened(tmp_path)
    csrf = logged_in(service, client, Role.APPROVER)
    assert client.get("/api/look").json() == "a-approver"
    assert client.post("/approve").status_code == 403
    assert client.post("/approve", data={"csrf": "guess"}).status_code == 403
    assert client.post("/approve", data={"csrf": csrf}).status_code == 200
    assert client.post("/api/change", headers={"X-CSRF-Token": csrf}).status_code == 200
    assert client.post("/logout", data={"csrf": "guess"}).status_code == 403
    assert client.post("/logout", data={"csrf": csrf}).status_code == 303
    assert client.get("/api/look").json() == "anonymous"


def test_behind_a_proxy_that_ends_tls_the_cookie_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    service, client = opened(tmp_path)
    for said, secure in (({}, False), ({"X-Forwarded-Proto": "http"}, False), ({"X-Forwarded-Proto": "https"}, True)):
        name = f"ada-{len(said)}{secure}"
        answer = client.post("/login", data={"token": token(service, Role.VIEWER, name)}, headers=said)
        assert ("; secure" in answer.headers["set-cookie"].lower()) is secure


def test_a_session_ends_where_its_browser_logs_in_again(tmp_path: Path) -> None:
    service, client = opened(tmp_path)
    logged_in(service, client, Role.OPERATOR)
    first = client.cookies[COOKIE]
    client.post("/login", data={"token": token(service, Role.VIEWER)})
    assert client.cookies[COOKIE] != first
    assert service.ledger.tokens.session(first) is None


@pytest.mark.parametrize("place", ["/plans/a%00b", "/api/v1/plans/%00", "/tables?search=%00"])
def test_a_nul_is_refused_and_not_looked_for(tmp_path: Path, place: str) -> None:
    _, client = opened(tmp_path)
    assert client.get(place).status_code == 400


def test_a_form_with_a_nul_in_it_is_refused(tmp_path: Path) -> None:
    service, client = opened(tmp_path)
    headers = bearer(token(service, Role.OPERATOR))
    assert client.post("/freeze", data={"reason": "a\0b"}, headers=headers).status_code == 422
    assert service.ledger.switches.frozen() is None


def test_a_wrong_token_logs_nobody_in(tmp_path: Path) -> None:
    _, client = opened(tmp_path)
    answer = client.post("/login", data={"token": "guess"})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("place", ["https://evil.example", "//evil.example", "/\\evil.example"])
def test_the_form_leads_nowhere_else(tmp_path: Path, place: str) -> None:
    service, client = opened(tmp_path)
    answer = client.post("/login", data={"token": token(service, Role.VIEWER), "next": place})
    assert answer.headers["location"] == "/"


def test_a_page_asks_for_a_name_and_the_api_for_a_token(tmp_path: Path) -> None:
    _, client = opened(tmp_path, "[service]\nanonymous_read = false\n")
    assert client.post("/approve").status_code == 401
    assert client.get("/api/look").headers["www-authenticate"] == "Bearer"


def test_every_answer_has_its_headers_and_an_id(tmp_path: Path) -> None:
    _, client = opened(tmp_path)
    for path in ("/livez", "/api/nothing", "/nothing", "/broken"):
        answer = client.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-request-id"]


def test_what_can_be_read_can_be_asked_for_without_its_content(tmp_path: Path) -> None:
    """Uptime monitors and `curl -I` ask so."""
    service, client = opened(tmp_path)
    for path in ("/", "/livez", "/metrics", "/api/look", "/static/mark.svg"):
        found, whole = client.head(path), client.get(path)
        assert (found.status_code, found.content) == (200, b""), path
        assert found.headers["content-type"] == whole.headers["content-type"]
    assert client.head("/nothing").status_code == 404
    assert client.head("/nothing").content == b""
    assert client.head("/api/change").status_code == 405
    assert client.head("/api/look", headers=bearer("lw_wrong")).status_code == 401
    service.ledger.requests.create("q", RequestKind.OBSERVE, Actor("ada", "host-1"))
    stream = client.head("/api/v1/requests/q/events")  # would go on until the request is over
    assert stream.headers["content-type"].startswith("text/event-stream")


def test_an_error_is_told_in_words_without_what_it_hides(tmp_path: Path) -> None:
    _, client = opened(tmp_path)
    broken = client.get("/broken")
    assert broken.status_code == 500
    assert "hunter2" not in broken.text
    assert "Traceback" not in broken.text
    missing = client.get("/api/nothing").json()
    assert missing["code"] == "LW-CORE-010"
    assert missing["request_id"]


def test_a_long_body_is_refused_said_or_not(tmp_path: Path) -> None:
    _, client = opened(tmp_path, "[service]\nmax_request_bytes = 2048\n")
    assert client.post("/login", data={"token": "x" * 4000}).status_code == 413
    parts = (b"token=" + b"x" * 1000 for _ in range(4))
    unsaid = client.post("/login", content=parts, headers={"content-type": "application/x-www-form-urlencoded"})
    assert unsaid.status_code == 413


def test_another_name_for_this_machine_is_refused(tmp_path: Path) -> None:
    _, client = opened(tmp_path)
    assert client.get("/livez", headers={"host": "evil.example"}).status_code == 400
    assert client.get("/livez", headers={"host": "localhost:8787"}).status_code == 200
    for no_name in ("[", "[::1", "]"):
        refused = client.get("/api/v1/plans", headers={"host": no_name})
        assert (refused.status_code, refused.json()["code"]) == (400, "LW-CONF-002")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),  # another port of this machine
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "https://evil.example/127.0.0.1"}, 403),
        ({"origin": "https://["}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://behind.a.proxy"}, 303),
        ({"origin": "http://127.0.0.1:8787"}, 303),
        ({"origin": "null"}, 303),
        ({}, 303),
    ],
)
def test_nobody_is_logged_in_by_another_sites_page(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    service, client = opened(tmp_path)
    answer = client.post("/login", data={"token": token(service, Role.OPERATOR)}, headers=headers)
    assert (answer.status_code, "set-cookie" in answer.headers) == (status, status == 303)


def test_who_looks_is_answered_while_somebody_else_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0)
    service, client = opened(tmp_path)
    headers = bearer(token(service, Role.VIEWER))
    other = sqlite3.connect(tmp_path / "state" / "lakewarden.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert client.get("/api/look", headers=headers).json() == "a-viewer"
    other.close()


def test_the_process_is_alive_while_every_thread_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state may not answer for a minute: whoever kills what is not alive must not kill the service for that."""
    service, client = opened(tmp_path)
    everybody, threads, begun = threading.Event(), 40, threading.Semaphore(0)

    def waits(*_: object) -> None:
        begun.release()
        everybody.wait(30)

    monkeypatch.setattr(type(service.ledger.tokens), "check", waits)
    with client, ThreadPoolExecutor(threads) as pool:
        asked = [pool.submit(client.get, "/api/look", headers=bearer("lw_x")) for _ in range(threads)]
        for _ in range(threads):
            assert begun.acquire(timeout=30)
        alive = client.get("/livez")
        everybody.set()
        assert alive.status_code == 200
        assert {one.result().status_code for one in asked} == {401}


def test_pages_know_what_a_user_may() -> None:
    nobody = User("anonymous", Role.VIEWER, anonymous=True)
    assert [nobody.may(role) for role in Role] == [True, False, False]
    assert [User("ada", Role.OPERATOR).may(role) for role in Role] == [True, True, False]


def test_no_router_is_asked_in_turn_for_every_request(tmp_path: Path) -> None:
    app = create_app(service_in(tmp_path))
    assert all(isinstance(route, Route | Mount) for route in app.router.routes)
    assert sum(route.path.startswith("/api/v1/") for route in app.router.routes) > 30


def test_a_part_of_a_page_is_no_place_to_log_in(tmp_path: Path) -> None:
    """A session may end while somebody watches a run: the page itself is loaded again, and asks for a name."""
    _, client = opened(tmp_path, "[service]\nanonymous_read = false\n")
    answer = client.get("/runs/run-1/live", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers.get("hx-refresh"), answer.text) == (401, "true", "")
    assert client.get("/runs/run-1", follow_redirects=False).headers["location"] == "/login?next=/runs/run-1"
