"""Snapshots without the required lineage, in words: which, when, by whom, and what they lack."""

from __future__ import annotations

from lakewarden.cli.screen import Screen, number
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job

SHOWN = 5


def show_violations(screen: Screen, job: str, table: TablePlan) -> None:
    """What a check found in one table; the newest snapshots first."""
    if job != Job.LINEAGE_CHECK or not table.detail.get("violations"):
        return
    found = table.detail
    screen.line(
        f"  {number(found['violations'])} of {number(found['snapshots'])} snapshots, {number(found['new'])} new"
    )
    for writer, count in list(found["writers"].items())[:SHOWN]:
        screen.line(f"    by {writer}: {number(count)}")
    for line in found["named"][:SHOWN]:
        when = f"{line['at'][:16].replace('T', ' ')} UTC"
        screen.line(
            f"    {line['snapshot_id']}   {when}   {line['operation']}   {line['writer']}   {'; '.join(line['lacks'])}"
        )
    if found["violations"] > SHOWN:
        screen.line(
            f"    and {number(found['violations'] - SHOWN)} more; --output json names the newest {len(found['named'])}"
        )
