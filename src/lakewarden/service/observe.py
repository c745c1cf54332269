"""The fleet as pages and the API show it: one row a table, from catalogs, metadata and the newest plans. No Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from lakewarden.ledger.fleet import FleetRow
from lakewarden.model.table import TableState, parts_of
from lakewarden.night.enabled import enabled_jobs
from lakewarden.reports.overview import Overview, overview_of
from lakewarden.service.seen import edges_of, seen_of
from lakewarden.settings import Settings
from lakewarden.steps.deployment import Deployment


def observe(deployment: Deployment, settings: Settings) -> dict[str, Any]:
    """Look at every table, and put what was seen in the place of what was seen before. What was found, in a few numbers."""
    found = overview_of(deployment)
    edges = edges_of(deployment, found.fleet.states)
    deployment.ledger.fleet.replace(_rows(found, settings.service.tenants, edges), found.at)
    return {
        "tables": len(found.fleet.states),
        "health": {str(status): count for status, count in found.counts.items()},
        # Which jobs some table's policy enables: a table property may, which only a look at the table tells.
        "enabled": [str(spec.name) for spec in enabled_jobs(deployment, found.fleet.states)],
    }


def tenant_of(identifier: str, tenants: Mapping[str, str]) -> str:
    """Whose table it is: by the first pattern that matches, else the first part of its namespace."""
    named = next((name for pattern, name in tenants.items() if fnmatchcase(identifier, pattern)), None)
    parts = parts_of(identifier)
    return named or (parts[1] if len(parts) > 2 else parts[0])


def _rows(found: Overview, tenants: Mapping[str, str], edges: Mapping[str, list[dict[str, Any]]]) -> Iterator[FleetRow]:
    for state in found.fleet.states:
        name, parts = state.identifier, parts_of(state.identifier)
        facts, health, waiting = found.facts[name], found.health[name], found.waiting.get(name)
        codes = [reason.code for reason in health.reasons]
        orphans = facts.orphans.bytes if facts.orphans else 0
        planned = found.planned.get(name)
        yield FleetRow(
            identifier=name,
            catalog=parts[0],
            namespace=".".join(parts[1:-1]),
            tenant=tenant_of(name, tenants),
            format=state.format,
            uuid=state.uuid,
            health=str(health.status),
            observed_at=found.at,
            code=codes[0] if codes else None,
            codes=codes,
            snapshots=len(state.snapshot_ids),
            refs=len(state.refs),
            files=facts.data.files if facts.data else None,
            bytes=facts.data.bytes if facts.data else None,
            small_files=facts.small.files if facts.small else None,
            delete_files=_delete_files(state),
            reclaimable_bytes=orphans + (waiting.tally.bytes if waiting else 0),
            orphan_share=facts.orphan_share,
            newest_commit_at=_newest_commit(state),
            detail={
                "location": state.location,
                "metadata_location": state.metadata_location,
                "format_version": state.format_version,
                "orphan_bytes": orphans,
                "pending_bytes": waiting.tally.bytes if waiting else 0,
                "plan_id": planned[0].plan_id if planned else None,
                **seen_of(state),
                "edges": edges.get(name, []),
                "reasons": [{"code": one.code, "message": one.message, "hint": one.hint} for one in health.reasons],
            },
        )


def _delete_files(state: TableState) -> int | None:
    current = (one for one in state.manifest_lists if one.snapshot_id == state.current_snapshot_id)
    found = next(current, None) if state.current_snapshot_id is not None else None
    return found.delete_files if found else None


def _newest_commit(state: TableState) -> datetime | None:
    newest = max((commit.at_ms for commit in state.commits), default=state.updated_ms)
    return datetime.fromtimestamp(newest / 1000, UTC) if newest else None
