"""Every page there is, by a name, as the content of `fleet.fill` has them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote


def places(ids: Mapping[str, str]) -> dict[str, str]:
    return {
        "overview": "/",
        "tables": "/tables",
        "table": "/tables/prod.tenant_00.events_00000",
        "refused table": "/tables/prod.tenant_07.events_00007",
        "plans": "/plans",
        "plan": f"/plans/{ids['ready']}",
        "waiting plan": f"/plans/{ids['waiting']}",
        "used plan": f"/plans/{ids['used']}",
        "plan compared": f"/plans/{ids['waiting']}/diff",
        "runs": "/runs",
        "run": f"/runs/{ids['run']}",
        "request": "/requests/req-running",
        "schedule": "/schedule",
        "branches": "/branches",
        "compaction": "/compaction",
        "leases": "/leases",
        "audit, nothing asked": "/audit",
        "audit": f"/audit?uri={quote(ids['uri'])}",
        "runbook": "/errors/LW-TABLE-002",
        "log in": "/login",
        "not found": "/nowhere",
    }
