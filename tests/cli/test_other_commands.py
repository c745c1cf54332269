"""tables, policy, doctor, explain, audit, leases, freeze; and how errors reach people and programs."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.model.errors import LeaseHeldError, PlanUsedError


def test_tables_lists_refusals_below(lakewarden: Any) -> None:
    out = lakewarden("tables").out
    assert "REFUSED prod.a.bad   LW-TABLE-002 manifest m1.avro is cut" in out
    assert lakewarden("tables", "--output", "json").json["tables"][1]["refusal"]["code"] == "LW-TABLE-002"


def test_policy_shows_values_as_they_are_written_in_the_file(lakewarden: Any, warden: Any) -> None:
    values = {"remove": ["broken", "detached"], "protect": [], "cron": "0 6 * * *", "dry_run": True, "keep": None}
    warden.policies = lambda table: {"stale-branches": {key: (value, "default") for key, value in values.items()}}
    lines = [line.split("  ", 1)[1].strip() for line in lakewarden("policy", "prod.a.t").out.splitlines()[2:]]
    told = [line.removesuffix("default").strip() for line in lines]
    assert told == ['["broken", "detached"]', "[]", '"0 6 * * *"', "true", ""]


def test_policy_names_the_file_once(lakewarden: Any, warden: Any) -> None:
    """With the file on every line no table fits 80 columns."""
    source = 'lakewarden.toml [[overrides]] match = "prod.a.*"'
    warden._policy = lambda: {"retain_min": (3, source), "batch_size": (7, "environment LAKEWARDEN_X__BATCH_SIZE")}
    lines = lakewarden("policy", "prod.a.t").out.splitlines()
    assert lines[0] == "Sections in brackets are those of lakewarden.toml"
    told = "\n".join(lines[1:])
    assert '3      [[overrides]] match = "prod.a.*"' in told
    assert "environment LAKEWARDEN_X__BATCH_SIZE" in told
    assert "lakewarden.toml" not in told
    document = lakewarden("policy", "prod.a.t", "--output", "json").out
    assert "lakewarden.toml [[overrides]]" in document, "programs read each source whole"


def test_policy_shows_sources_and_no_secret(lakewarden: Any) -> None:
    answer = lakewarden("policy", "prod.a.t")
    rows = [line.split(maxsplit=2) for line in answer.out.splitlines()]
    assert ["dry_run", "true", "default"] in rows
    assert ["delete_mode", '"remove"', "x.toml [orphan_cleanup]"] in rows
    assert "hunter2" not in answer.out + lakewarden("policy", "prod.a.t", "--output", "json").out


def test_doctor_reads_out_its_report_without_secrets(lakewarden: Any) -> None:
    out = lakewarden("doctor").out
    assert "2 tables in 2 directories: 1 refused, 1 healthy" in out
    assert "LW-TABLE-001" in out
    assert "hunter2" not in out + lakewarden("doctor", "--output", "json").out


def test_explain_answers_in_words_and_json(lakewarden: Any) -> None:
    assert lakewarden("explain", "s3://b/f").out.splitlines() == [
        "LIVE   s3://b/f",
        "  A table needs it. While that is so, no job deletes it.",
        "",
        "NEEDED BY",
        "  prod.a.b, through main, v1, snapshot 7",
        "    s3://b/m.avro",
        "  and in 2 more ways",
    ]
    found = lakewarden("explain", "s3://b/f", "--output", "json").json
    assert found["live_through"][0]["refs"] == ["main", "v1"]


def test_audit_who_and_verify(lakewarden: Any) -> None:
    assert "operator: ada" in lakewarden("audit", "who", "s3://b/gone").out
    assert "mentions this file" in lakewarden("audit", "who", "s3://b/other").out
    assert lakewarden("audit", "who", "s3://b/other", "--output", "json").json["entries"] == []
    assert lakewarden("audit", "verify").code == 0
    assert lakewarden("audit", "verify", "cut").code == 1


def test_leases_show_their_key_and_are_released_with_a_reason(lakewarden: Any, warden: Any) -> None:
    assert lakewarden("leases").out.splitlines() == [
        "lease           holder  renewed                  lasts s",
        "root/s3://b/t/  host-2  2026-11-15 06:00:04 UTC       60",
        "1 lease was released (--output json names all).",
    ]
    assert [lease["state"] for lease in lakewarden("leases", "--output", "json").json["leases"]] == ["held", "released"]
    assert lakewarden("leases", "--release", "k").code == 64
    assert lakewarden("leases", "--reason", "host died").code == 64
    assert warden.calls == []
    assert lakewarden("leases", "--release", "k", "--reason", "host died").code == 0
    assert warden.calls[0][1]["reason"] == "host died"


def test_a_lease_record_that_cannot_be_read_is_named(
    lakewarden: Any, warden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrupt = {"key": "s3://b/state/leases/x.register", "state": "corrupt", "status": "corrupt", "holder": None}
    monkeypatch.setattr(type(warden), "leases", lambda _: [corrupt])
    assert lakewarden("leases").out.splitlines() == [
        "No lease is held.",
        "The record s3://b/state/leases/x.register cannot be read; nobody takes its lease (LW-LEASE-003).",
    ]


def test_freeze_and_unfreeze(lakewarden: Any, warden: Any) -> None:
    assert lakewarden("freeze", "--reason", "incident", "--output", "json").json["frozen"] is True
    assert lakewarden("unfreeze", "--output", "json").json == {"frozen": False, "changed": True}
    assert [name for name, _ in warden.calls] == ["freeze", "unfreeze"]


@pytest.mark.parametrize(("error", "code"), [(LeaseHeldError("held by host-2"), 11), (PlanUsedError("used"), 5)])
def test_an_error_is_words_on_stderr_or_one_document_on_stdout(
    lakewarden: Any, warden: Any, error: Any, code: int
) -> None:
    def during(_: str) -> None:
        raise error

    warden.during = during
    words = lakewarden("apply", "p", "--yes")
    assert (words.code, words.out) == (code, "")
    assert f"{error.code} {error.message}" in words.err
    assert f"Next: {error.hint}" in words.err
    document = lakewarden("apply", "p", "--yes", "--output", "json")
    assert document.json == {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    assert document.code == code


def test_an_unexpected_error_has_no_traceback_and_no_secret_unless_verbose(lakewarden: Any, warden: Any) -> None:
    def during(_: str) -> None:
        raise RuntimeError("cannot reach https://u:hunter2@h")

    warden.during = during
    answer = lakewarden("plan", "orphans")
    assert answer.code == 1
    assert "LW-CORE-001 unexpected RuntimeError" in answer.err
    assert "Traceback" not in answer.err
    assert "hunter2" not in answer.err
    verbose = lakewarden("plan", "orphans", "--verbose").err
    assert "Traceback" in verbose
    assert "hunter2" not in verbose


@pytest.mark.parametrize(
    "words", ["plan", "plan stale-leaves", "plan orphans --nope", "aply p", "show p --limit 0", "runs --limit x"]
)
def test_usage_mistakes_are_64_for_people_and_programs(lakewarden: Any, warden: Any, words: str) -> None:
    assert lakewarden(*words.split()).code == 64
    answer = lakewarden(*words.split(), "--output=json")
    assert (answer.code, answer.json["error"]["code"]) == (64, "LW-CONF-002")
    assert warden.calls == []


READING = ["show", "diff", "runs", "tables", "policy", "doctor", "explain", "audit who", "audit verify"]
CHANGING = ["plan", "apply", "run", "restore", "abandon", "forget", "leases", "freeze", "unfreeze"]


@pytest.mark.parametrize("command", READING + CHANGING)
def test_every_command_takes_the_shared_options(lakewarden: Any, command: str) -> None:
    out = lakewarden(*command.split(), "--help").out
    assert all(option in out for option in ("--config", "--output", "--verbose"))
    if command in CHANGING:
        assert all(option in out for option in ("--operator", "--ticket", "--trigger"))
