"""Where data came from: the snapshot that a file or an id means, its writer, its trigger and its inputs. No Spark."""

from __future__ import annotations

from typing import Any

from lakewarden.model.errors import NotFoundError, UsageError
from lakewarden.reports.audit.asked import AskedSnapshot, asked
from lakewarden.reports.audit.facts import name_of, snapshot_facts
from lakewarden.reports.audit.inputs import inputs_found
from lakewarden.reports.audit.snapshots import Known, Snapshots
from lakewarden.reports.audit.written import written_by
from lakewarden.steps.deployment import Deployment

MOST = 20
UNKNOWN = "`lakewarden tables` lists the tables; a snapshot that expired before history was on is not known."

Facts = dict[str, Any]


def origin(deployment: Deployment, text: str) -> Facts:
    """Who wrote a file or made a snapshot. Raises NotFoundError if nobody knows, UsageError if too many tables have the id."""
    wanted = asked(text)
    snapshots = Snapshots(deployment)
    if isinstance(wanted, AskedSnapshot):
        answer: Facts = {"asked": str(wanted)}
        found = one_of_few(snapshots, wanted)
    else:
        answer = {"asked": wanted}
        found, how = written_by(deployment, snapshots, wanted)
        answer["resolved_by"] = how
    answer["origins"] = [
        {**snapshot_facts(one), "inputs": inputs_found(snapshots, one), "summary": dict(one.summary)} for one in found
    ]
    return answer | beside(snapshots)


def one_of_few(snapshots: Snapshots, wanted: AskedSnapshot) -> list[Known]:
    """The snapshots that a question names. Raises NotFoundError, and UsageError where it would be a list of tables."""
    found = snapshots.of(wanted)
    if not found:
        raise NotFoundError(
            f"snapshot {wanted} is in no table and not in the archive", hint=_elsewhere(snapshots, wanted) or UNKNOWN
        )
    if len(found) > MOST:
        raise UsageError(
            f"{len(found)} tables have a snapshot {wanted}; nothing was looked up",
            hint=f"Name the table too, such as {found[0].row['identifier']}@{wanted.snapshot_id}.",
        )
    return found


def _elsewhere(snapshots: Snapshots, wanted: AskedSnapshot) -> str | None:
    """Where the id is, if not in the table that was named: somebody may have written the name of another one."""
    names = [name_of(known.row) for known in snapshots.find([wanted.snapshot_id])]
    return f"The id is known elsewhere: {', '.join(names[:MOST])}." if names else None


def beside(snapshots: Snapshots) -> Facts:
    """What an answer does not cover, by name."""
    found: Facts = {}
    if snapshots.unread:
        found["unread_tables"] = dict(snapshots.unread)
    if snapshots.lost:
        found["lost_archive_files"] = dict(snapshots.lost)
    return found
