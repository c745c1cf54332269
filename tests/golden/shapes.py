"""The fields that programs read (the interface's JSON): they may grow, and none may go."""

from __future__ import annotations

from typing import Any

ERROR = {"code", "message", "hint"}
PLAN = {"plan_id", "path", "job", "created_at", "expires_at", "cutoff", "actor", "tables", "totals"}
TABLE = {"identifier", "uuid", "format", "status", "refusal", "verdicts", "kinds", "changes"}
RUN = {"run_id", "plan_id", "job", "status", "changed", "deleted", "absent", "quarantined", "kept", "failed"}
NIGHT = {"night_id", "status", "jobs", "totals"}
NIGHT_JOB = (RUN - {"absent"}) | {"plan_path", "planned", "refused", "brakes", "resumed", "error", "skipped_because"}
STATUSES = {"done", "partial", "refused", "failed", "planned"}


def check_shape(scene: str, document: Any) -> None:
    """Raise unless the document has every field that the interface promises of its command."""
    command = scene.partition("/")[0]
    assert isinstance(document, dict), scene
    if "error" in document:
        assert document["error"].keys() >= ERROR
        assert set(document) == {"error"}
    elif command in ("plan", "show") and "jobs" not in document:
        _check_plan(document)
    elif command in ("run-all", "plan-all"):
        _check_night(document)
    elif command in ("apply", "run", "restore") and "drills" not in document:
        _check_run(document)


def _check_plan(document: dict[str, Any]) -> None:
    assert document.keys() >= PLAN
    for table in document["tables"]:
        assert table.keys() >= TABLE
        assert table["status"] in ("planned", "refused")
        assert (table["status"] == "refused") == (table["refusal"] is not None)
        assert table["refusal"] is None or table["refusal"].keys() >= ERROR
    for part in (document["totals"], *document["tables"]):
        for counts in (part["verdicts"], part["kinds"]):
            assert all(tally.keys() >= {"files", "bytes"} for tally in counts.values())
        assert all(isinstance(count, int) for count in part["changes"].values())


def _check_night(document: dict[str, Any]) -> None:
    assert document.keys() >= NIGHT
    assert document["status"] in STATUSES | {"stopped"}
    for job in document["jobs"]:
        assert job.keys() >= NIGHT_JOB
        assert job["status"] in STATUSES | {"stopped", "skipped"}
        assert job["error"] is None or job["error"].keys() >= ERROR
        assert (job["status"] == "skipped") == (job["skipped_because"] is not None)
        assert all(refused.keys() >= ERROR for refused in job["refused"])


def _check_run(document: dict[str, Any]) -> None:
    assert document.keys() >= RUN
    assert document["status"] in STATUSES
    assert all(document[name].keys() >= {"files", "bytes"} for name in ("deleted", "quarantined"))
    assert all(file.keys() >= {"uri", "code", "message"} for file in document["failed"])
