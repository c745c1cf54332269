"""What the API says of a filled ledger: pages, filters, plans and their files, decisions, live events; nothing secret."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from lakewarden.ledger.requests import Ended
from lakewarden.model.plan import PLAN_FILE
from lakewarden.model.service import RequestKind, RequestStatus, Role
from lakewarden.service.api import live
from lakewarden.service.api.maintenance import of_tenant
from lakewarden.service.api.tables import seen_policies
from lakewarden.service.room import MOST_WAITING
from lakewarden.service.service import Service
from tests.service.pages.fleet import ADA, fill
from tests.support.promtool import promtool
from tests.support.service import bearer, client_of, service_in, token

TABLES = 200
SECRETS = """
[catalogs.prod]
format = "iceberg"
properties = { type = "sql", uri = "postgresql://lake:hunter2@db/x" }
[storage."s3://lake"]
access_key_id = "AKIAHUNTER2"
secret_access_key = "hunter2-key"
[[webhooks]]
url = "https://hooks.example.com/T0/hunter2"
secret = "hunter2 and some more"
"""


class Api:
    """A client of one service, as each role."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.service: Service = service_in(folder, more)
        self.client: TestClient = client_of(self.service)
        self.headers = {role: dict(bearer(token(self.service, role))) for role in Role}
        self.ids: dict[str, str] = {}

    def get(self, path: str, **params: Any) -> Any:
        answer = self.client.get(f"/api/v1/{path}", params=params, headers=self.headers[Role.VIEWER])
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, role: Role = Role.OPERATOR, wanted: int = 202, **headers: str) -> Any:
        sent = {**self.headers[role], **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = self.client.post(f"/api/v1/{path}", json=body, headers=sent)
        assert answer.status_code == wanted, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("answers")
    api = Api(folder, SECRETS)
    api.ids = fill(api.service, folder / "plans", TABLES)
    yield api
    api.service.warden.close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    yield made
    made.service.warden.close()


def test_tables_are_searched_filtered_sorted_and_paged(filled: Api) -> None:
    first = filled.get("tables", limit=30)
    assert (first["total"], len(first["tables"]), first["tables"][0]["health"]) == (TABLES, 30, "refused")
    seen = [
        row["identifier"] for at in range(0, TABLES, 30) for row in filled.get("tables", limit=30, offset=at)["tables"]
    ]
    assert len(seen) == len(set(seen)) == TABLES
    found = filled.get("tables", search="EVENTS_00003", health="attention", tenant="tenant_03", format="iceberg")
    assert [row["identifier"] for row in found["tables"]] == ["prod.tenant_03.events_00003"]
    assert found["tables"][0]["codes"] == ["small files"]
    largest = filled.get("tables", sort="bytes", descending=True, limit=2)["tables"]
    assert largest[0]["bytes"] >= largest[1]["bytes"]
    one = filled.get("tables/prod.tenant_07.events_00007")
    assert one["detail"]["reasons"][0]["hint"].startswith("Restore the manifest")
    summary = filled.get("fleet")
    assert (summary["tables"], summary["health"]["refused"]) == (TABLES, 4)
    branches = filled.get("branches", limit=3)
    assert branches["tables"][0]["refs"][1]["snapshot_id_text"] == "1003"


def test_a_plan_and_its_files_are_leafed_through(filled: Api) -> None:
    ready = filled.ids["ready"]
    listed = filled.get("plans", job="orphan-cleanup", limit=2)
    assert (listed["total"], len(listed["plans"])) == (5, 2)
    plan = filled.get(f"plans/{ready}")
    assert plan["summary"]["totals"]["changes"] == {"files": 48}
    assert (plan["used_by"], "path" in plan) == (None, False)
    seen: list[str] = []
    cursor: str | None = "0"
    while cursor is not None:
        page = filled.get(f"plans/{ready}/files", verdict="orphan", cursor=cursor, limit=20)
        assert page["total"] == 48
        seen += [file["uri"] for file in page["files"]]
        cursor = page["next_cursor"]
    assert len(seen) == len(set(seen)) == 48
    found = filled.get(f"plans/{ready}/files", search="00007-LOST")["files"]
    assert [(file["verdict"], file["reason"]) for file in found] == [("orphan", "no table needs it")]
    other = filled.ids["waiting"]
    for plan_id in (ready, other):
        header, path = filled.service.ledger.plans.header(plan_id), filled.service.ledger.plans.path(plan_id)
        assert header is not None
        Path(str(path).removeprefix("file://"), PLAN_FILE).write_bytes(header.dumps())
    difference = filled.get(f"plans/{ready}/diff", to=other)
    assert (len(difference["added"]), difference["removed"]) == (8, [])


def test_runs_are_told_with_what_they_did(filled: Api) -> None:
    assert filled.get("runs", status="partial")["runs"][0]["run_id"] == "run-partial"
    run = filled.get("runs/run-used")
    assert (run["status"], run["outcomes"]["quarantined"]["files"]) == ("done", 40)
    assert filled.get("audit/verify/run-used")["problems"] != [], "its head was never kept outside the database"
    who = filled.get("audit/who", uri=filled.ids["uri"])
    assert who["entries"][0]["run_id"] == "run-used"
    assert [job["job"] for job in filled.get("schedule")["jobs"]] == [
        "snapshot-expiry",
        "physical-deletion",
        "orphan-cleanup",
    ]


def test_metrics_are_told_over_http(filled: Api) -> None:
    answer = filled.client.get("/metrics", headers=filled.headers[Role.VIEWER])
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'lakewarden_runs_total{job="orphan-cleanup",status="partial"} 1.0' in answer.text
    assert promtool("check", "metrics", given=answer.content) == (0, "")


def test_nothing_secret_is_in_any_answer(filled: Api) -> None:
    filled.service.ledger.requests.create("req-secret", RequestKind.PLAN, ADA, job="orphan-cleanup")
    claimed = filled.service.ledger.requests.claim("w")
    assert claimed is not None
    error = {"code": "LW-STORE-001", "message": "s3://u:hunter2@x failed, secret_access_key=hunter2-key", "hint": "h"}
    filled.service.ledger.requests.finish(claimed.request_id, "w", Ended(RequestStatus.FAILED, error=error))
    places = [
        "tables", "fleet", "branches", "plans", "runs", "requests", "leases", "heartbeats", "schedule", "freeze",
        f"plans/{filled.ids['ready']}", f"plans/{filled.ids['ready']}/files", "runs/run-used",
        f"requests/{claimed.request_id}",
    ]  # fmt: skip
    for place in places:
        assert "hunter2" not in json.dumps(filled.get(place)).lower(), place
    policy = filled.client.get("/api/v1/tables/prod.a.b/policy", headers=filled.headers[Role.VIEWER])
    assert policy.status_code == 503, "nobody has looked at the table, and its database does not answer"
    assert "hunter2" not in policy.text


def test_a_policy_is_told_while_the_catalog_is_away(filled: Api) -> None:
    """Some viewers who ask would else hold every thread that answers, a minute each."""
    name = filled.get("tables", limit=1)["tables"][0]["identifier"]
    row = filled.service.ledger.fleet.get(name)
    assert row is not None
    told = filled.get(f"tables/{name}/policy")
    assert told["table"] == name
    assert told["jobs"]["orphan-cleanup"]["dry_run"] == {"value": True, "source": "default"}
    said = {"lakewarden.orphan_cleanup.batch_size": "77"}
    changed = replace(row, detail={**row.detail, "properties": said})
    found = seen_policies(filled.service, changed)["orphan-cleanup"]["batch_size"]
    assert found[0] == 77
    assert "lakewarden.orphan_cleanup.batch_size" in found[1]


def test_maintenance_is_asked_for_once_by_one_key(api: Api) -> None:
    body = {"job_type": "cleanup_orphan_files", "catalog": "prod", "tenant": "a[c]me", "dry_run": True}
    made = api.post("maintenance", body, Idempotency_Key="monday")
    assert (made["kind"], made["job"], made["status"]) == ("plan", "orphan-cleanup", "queued")
    assert made["arguments"] == {"select": ["prod.a[[]c]me.*"]}
    assert api.post("maintenance", body, Idempotency_Key="monday") == made
    dotted = api.post("maintenance", {"job_type": "orphans", "catalog": "prod", "tenant": "a.b"})
    assert dotted["arguments"] == {"select": ["prod.`a.b`.*"]}
    nowhere = api.post("maintenance", {"job_type": "orphans", "tenant": "acme"}, wanted=404)
    assert nowhere["code"] == "LW-CORE-010", "no pattern at all would be every table"
    assert (
        api.post("maintenance", {**body, "dry_run": False}, Idempotency_Key="monday", wanted=409)["code"]
        == "LW-SERVICE-003"
    )
    other = api.post("maintenance", body, role=Role.APPROVER, Idempotency_Key="monday")
    assert other["request_id"] != made["request_id"], "another token's key is another key"
    assert api.post("maintenance", {"job_type": "snapshot-expiry"})["kind"] == "run"
    assert api.post("maintenance", {"job_type": "no-such-job"}, wanted=400)["code"] == "LW-CONF-002"
    assert api.post("maintenance", {**body, "select": "a.*"}, wanted=422)["errors"]
    assert (
        api.post("maintenance", {"job_type": "orphans", "everything": True}, wanted=422)["docs"]
        == "/errors/LW-CONF-003"
    )


def test_a_run_is_known_while_it_is_at_work(api: Api) -> None:
    asked = api.post("maintenance", {"job_type": "cleanup_stale_branches"})
    where, ledger = f"requests/{asked['request_id']}", api.service.ledger
    assert ledger.requests.claim("w1") is not None
    assert api.get(where)["run_id"] is None
    ledger.requests.note(asked["request_id"], "w1", plan_id="p1", plan_path="file:///p1/")
    assert api.get(where)["run_id"] is None
    ledger.plans.claim("p1", "run-1")
    ledger.runs.start("run-1", "stale-branches", "p1", ADA)
    assert api.get(where)["run_id"] == "run-1"
    assert api.get("runs/run-1")["status"] == "running"


def test_a_tenant_is_nobody_elses_namespace(filled: Api) -> None:
    asked = filled.post("maintenance", {"job_type": "cleanup_stale_branches", "tenant": "acme"})
    assert asked["arguments"] == {"select": ["prod.acme.*"]}, "*.acme.* would be prod.umbrella.acme.orders too"


def test_maintenance_of_some_tables_of_a_tenant(filled: Api) -> None:
    body = {"job_type": "cleanup_stale_branches", "catalog": "prod", "select": ["*.orders"]}
    assert filled.post("maintenance", body)["arguments"] == {"select": ["*.orders"], "within": ["prod.*"]}
    asked = filled.post("maintenance", {**body, "tenant": "acme"})
    assert asked["arguments"] == {"select": ["*.orders"], "within": ["prod.acme.*"]}
    told = filled.client.get(f"/requests/{asked['request_id']}", headers=filled.headers[Role.VIEWER]).text
    assert "*.orders" in told
    assert "prod.acme.*" in told


def test_a_tenants_tables_are_those_that_the_configuration_says() -> None:
    tenants = {"prod.acme.special": "zeta", "prod.acme_*": "acme", "prod.*": "rest"}
    assert of_tenant("acme", ["lake", "prod"], tenants) == (["prod.acme_*"], ["prod.acme.special"])
    assert of_tenant("beta", ["prod"], tenants) == (["prod.beta.*"], list(tenants)), "the rest's: nothing is left of it"
    assert of_tenant("zeta", ["lake"], tenants) == (["lake.zeta.*"], ["prod.acme_*", "prod.*"])
    assert of_tenant("acme", ["prod"], {"prod.acme.special": "zeta"}) == (["prod.acme.*"], ["prod.acme.special"])


def test_a_plan_waits_for_somebody_else_to_agree(tmp_path: Path) -> None:
    api = Api(tmp_path)
    ids = fill(api.service, tmp_path / "plans", 10)
    mine = api.post(f"plans/{ids['waiting']}/approve", {"reason": "read it"}, role=Role.APPROVER)
    assert (mine["kind"], mine["status"], mine["operator"]) == ("apply", "queued", "a-approver")
    decided = api.get(f"plans/{ids['waiting']}")["decision"]
    assert (decided["decision"], decided["reason"]) == ("approved", "read it")
    assert (
        api.post(f"plans/{ids['used']}/reject", {"reason": "no"}, role=Role.APPROVER, wanted=409)["code"]
        == "LW-SERVICE-004"
    )
    rejected = api.post(f"plans/{ids['ready']}/reject", {"reason": "not today"}, role=Role.APPROVER, wanted=200)
    assert (rejected["decision"], rejected["operator"]) == ("rejected", "a-approver")
    assert api.post("plans/nosuch/apply", {}, wanted=404)["code"] == "LW-CORE-010"
    asked = api.post(f"plans/{ids['ready']}/apply", {"override_brakes": ["orphan-share"]})
    assert asked["arguments"] == {"override_brakes": ["orphan-share"]}, "where the plan lies stays inside"
    api.service.warden.close()


def test_audit_asks_where_data_came_from(api: Api) -> None:
    for place in ("audit/origin?snapshot=12", "audit/downstream?snapshot=12"):
        answer = api.client.get(f"/api/v1/{place}", headers=api.headers[Role.VIEWER])
        assert answer.status_code in (200, 404), answer.text
    asked = api.post("audit/explain", {"uri": "s3://lake/a.parquet"})
    assert asked["arguments"] == {"question": "explain", "uri": "s3://lake/a.parquet"}
    assert api.post("audit/explain", {"uri": "data/a.parquet"}, wanted=400)["code"] == "LW-CONF-002"
    assert api.post("audit/origin", {"uri": "s3://lake/a.parquet"})["arguments"]["question"] == "origin"
    assert api.post("audit/verify")["kind"] == "audit"


def test_too_much_that_waits_is_refused_and_what_waits_is_found_again(api: Api) -> None:
    first = api.post("plans", {"job_type": "orphans"}, Idempotency_Key="monday")
    for number in range(MOST_WAITING):
        api.service.ledger.requests.create(f"r{number}", RequestKind.OBSERVE, ADA)
    assert api.post("observe", wanted=429)["code"] == "LW-SERVICE-009"
    assert api.post("plans", {"job_type": "orphans"}, Idempotency_Key="monday") == first
    pressed = client_of(api.service).post("/observe", headers=api.headers[Role.OPERATOR])
    assert (pressed.status_code, "LW-SERVICE-009" in pressed.text) == (429, True), "a button is no way around it"
    assert len(api.service.ledger.requests.list(limit=MOST_WAITING + 9)) == MOST_WAITING + 1


def test_a_body_that_is_too_long_is_not_read(api: Api) -> None:
    most = api.service.section.max_request_bytes
    assert api.post("freeze", {"reason": "x" * most}, wanted=413)["code"] == "LW-SERVICE-006"


def test_events_come_live_and_go_on_where_somebody_stopped(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY_SECONDS", 0.02)
    requests = api.service.ledger.requests
    made = api.post("plans", {"job_type": "orphans"})["request_id"]
    requests.claim("w")
    for number in range(3):
        requests.event(made, "progress", {"done": number})
    came: list[str] = []

    def read(**headers: str) -> list[str]:
        with api.client.stream(
            "GET", f"/api/v1/requests/{made}/events", headers=api.headers[Role.VIEWER] | headers
        ) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            return list(answer.iter_lines())

    watcher = threading.Thread(target=lambda: came.extend(read()))
    watcher.start()
    requests.event(made, "planned", {"plan": "p"})
    requests.finish(made, "w", Ended(RequestStatus.DONE))
    watcher.join(20)
    assert [line for line in came if line.startswith("event")] == ["event: progress"] * 3 + [
        "event: planned",
        "event: over",
    ]
    ids = [line.removeprefix("id: ") for line in came if line.startswith("id")]
    rest = read(**{"Last-Event-ID": ids[2]})
    assert [line for line in rest if line.startswith("id")] == [f"id: {ids[3]}"]
    api.service.ledger.runs.start("run-1", "orphan-cleanup", None, ADA)
    api.service.ledger.runs.step("run-1", "begin", {"tables": 1})
    api.service.ledger.runs.finish("run-1", "done", {})
    steps = api.client.get("/api/v1/runs/run-1/events", headers=api.headers[Role.VIEWER]).text
    assert steps.startswith("id: 1\nevent: begin\n")
    assert steps.endswith("event: over\ndata: {}\n\n")


def test_a_stream_ends_with_the_token_that_opened_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY_SECONDS", 0.02)
    made = api.post("plans", {"job_type": "orphans"})["request_id"]
    api.service.ledger.requests.event(made, "progress", {"done": 1})
    came: list[str] = []

    def watch() -> None:
        with api.client.stream("GET", f"/api/v1/requests/{made}/events", headers=api.headers[Role.VIEWER]) as answer:
            came.extend(answer.iter_lines())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    while not live._open_streams and watcher.is_alive():
        time.sleep(0.01)
    assert watcher.is_alive()
    api.service.ledger.tokens.revoke(f"a-{Role.VIEWER}")
    watcher.join(20)
    assert not watcher.is_alive(), "nobody works on the request, so that the stream would never end"
    assert "event: over" not in came


def test_a_run_is_stopped_through_its_request(tmp_path: Path) -> None:
    api = Api(tmp_path)
    ids = fill(api.service, tmp_path / "plans", 10)
    assert api.post("runs/run-used/cancel", wanted=400)["hint"].startswith("`POST /api/v1/freeze`")
    ledger = api.service.ledger
    ledger.runs.start("run-now", "orphan-cleanup", ids["ready"], ADA)
    made = api.post(f"plans/{ids['ready']}/apply", {})
    ledger.requests.ask_cancel("req-queued", "ada")
    claimed = ledger.requests.claim("w")
    assert claimed is not None
    assert claimed.request_id == made["request_id"]
    ledger.requests.note(claimed.request_id, "w", plan_id=ids["ready"])
    assert api.post("runs/run-now/cancel")["cancel_asked_by"] == "a-operator"
    assert ledger.requests.beat(claimed.request_id, "w").cancel
    assert api.post("runs/run-used/restore")["kind"] == "restore"
    api.service.warden.close()
