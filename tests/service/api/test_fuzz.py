"""schemathesis asks every route whatever its description allows: no 500, and no answer that is not described."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks

from lakewarden.model.service import Role
from lakewarden.service.app import create_app
from lakewarden.service.service import Service
from tests.service.pages.fleet import fill
from tests.support.service import bearer, service_in, token
from tools.openapi import PAGE

load_all_checks()
NAMES = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance",
)  # fmt: skip
CHECKED = [CHECKS.get_one(name) for name in NAMES]
OPERATIONS = [
    (method.upper(), path)
    for path, methods in json.loads(PAGE.read_text(encoding="utf-8"))["paths"].items()
    for method in methods
]
OPEN = ("/livez", "/readyz")
MORE = '[service]\nanonymous_read = false\nallowed_hosts = ["testserver", "localhost", "127.0.0.1"]\n'
BOUNDED = settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    found = service_in(tmp_path_factory.mktemp("fuzzed"), MORE)
    yield found
    found.warden.close()


@pytest.fixture(scope="module")
def described(service: Service) -> Any:
    return schemathesis.openapi.from_asgi("/api/openapi.json", create_app(service))


@pytest.fixture(scope="module")
def headers(service: Service) -> dict[str, str]:
    return dict(bearer(token(service, Role.APPROVER)))


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_with_a_token(method: str, path: str, described: Any, headers: dict[str, str]) -> None:
    @BOUNDED
    @given(case=described[path][method].as_strategy())
    def asked(case: Any) -> None:
        case.call_and_validate(headers=headers, checks=CHECKED)

    asked()


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_without_a_token(method: str, path: str, described: Any) -> None:
    @settings(BOUNDED, max_examples=2)
    @given(case=described[path][method].as_strategy())
    def asked(case: Any) -> None:
        answer = case.call_and_validate(checks=CHECKED)
        assert answer.status_code == (200 if path in OPEN else 401)

    asked()


# What is asked of a ledger that holds something: the names in its answers are from there. Live events go on for ever.
NAMING = [(method, path) for method, path in OPERATIONS if not path.endswith("/events")]


class Filled(NamedTuple):
    described: Any
    headers: dict[str, str]
    names: dict[str, list[str]]  # by parameter, what the ledger holds


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp("filled")
    service = service_in(folder, MORE)
    fill(service, folder / "plans", 30)
    names = {
        "plan_id": [one.plan_id for one in service.ledger.plans.list()],
        "run_id": [one.run_id for one in service.ledger.runs.list()],
        "request_id": [one.request_id for one in service.ledger.requests.list()],
        "table": ["prod.tenant_00.events_00000"],
        "writer": ["flink-7"],
    }
    described = schemathesis.openapi.from_asgi("/api/openapi.json", create_app(service))
    yield Filled(described, dict(bearer(token(service, Role.APPROVER))), names)
    service.warden.close()


@pytest.mark.parametrize(("method", "path"), NAMING)
def test_of_what_the_ledger_holds(method: str, path: str, filled: Filled) -> None:
    names = {name: st.sampled_from(filled.names[name]) for name in re.findall(r"{(\w+)}", path)}
    answers = set()

    @settings(BOUNDED, max_examples=6)
    @given(case=filled.described[path][method].as_strategy(), found=st.fixed_dictionaries(names))
    def asked(case: Any, found: dict[str, str]) -> None:
        case.path_parameters = found
        if path.endswith("/diff"):
            case.query = {"to": filled.names["plan_id"][0]}
        answers.add(case.call_and_validate(headers=filled.headers, checks=CHECKED).status_code)

    asked()
    assert not (method == "GET" and names) or 200 in answers


HOSTILE = [
    "",
    "\0",
    "a\nb",
    "../../etc/passwd",
    "%00",
    "'; DROP TABLE lw_runs; --",
    "\u202e\U0001f9ca",
    "9" * 400,
    "{{7*7}}",
]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
def test_hostile_words_get_an_answer_in_words(service: Service, headers: dict[str, str], method: str) -> None:
    """Beyond the description: what a program that means harm sends, in every place of every route."""
    from fastapi.testclient import TestClient

    client = TestClient(create_app(service), base_url="http://127.0.0.1", raise_server_exceptions=False)
    for _, path in OPERATIONS:
        if "events" in path:
            continue
        for word in HOSTILE:
            place = "/".join(quote(word, safe="") if part[:1] == "{" else part for part in path.split("/"))
            answer = client.request(
                method, place, params={"search": word, "job": word}, headers=headers,
                **({"content": word.encode("utf-8", "surrogatepass")} if method != "GET" else {}),
            )  # fmt: skip
            assert answer.status_code < 500, f"{method} {place}: {answer.text}"
            if answer.status_code >= 400 and path.startswith("/api"):
                assert {"code", "message", "hint", "docs", "request_id"} <= answer.json().keys()
