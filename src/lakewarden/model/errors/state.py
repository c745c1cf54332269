"""LW-LEASE, LW-STATE and LW-DOUBT: what the worker keeps and remembers."""

from __future__ import annotations

from lakewarden.model.errors.base import UNCHANGED, Exit, LakewardenError
from lakewarden.model.lease import LeaseRecord


class LeaseHeldError(LakewardenError):
    """Somebody else is at work under this lease; `record` is the lease as it was seen."""

    code = "LW-LEASE-001"
    exit_code = Exit.LEASE_HELD
    hint = "Another worker is on this root. `lakewarden leases` shows who; wait, or release it with a reason."

    def __init__(self, message: str, *, record: LeaseRecord | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.record = record


class GroupLeasedError(LeaseHeldError):
    """Somebody else rewrites files of this partition; `record` is their lease."""

    code = "LW-LEASE-004"
    hint = "Nothing needs to be done: its holder rewrites these files, and the next plan takes up what is left."


class LeaseLostError(LakewardenError):
    code = "LW-LEASE-002"
    hint = "The lease was lost, so no further batch was started. Run apply again: it goes on where it stopped."


class LeaseCorruptError(LakewardenError):
    code = "LW-LEASE-003"
    exit_code = Exit.REFUSED
    hint = "The lease record cannot be read; it was set aside. Look at it, then `lakewarden leases --release KEY --reason …`."


class StateError(LakewardenError):
    code = "LW-STATE-001"
    hint = f"{UNCHANGED}Check state.database and state.location, then run the command again."


class StateBehindError(StateError):
    """The database forgets what its own state location remembers."""

    code = "LW-STATE-002"
    exit_code = Exit.REFUSED
    hint = "Bring the newest state database back. If it is lost, see LW-STATE-002 for how to go on without it."


class DoubtError(LakewardenError):
    """A table that was seen before cannot be seen now, or less of it: it may need what was about to change."""

    code = "LW-DOUBT-001"
    exit_code = Exit.REFUSED
    hint = "Find out where the table is. If it is gone for good: lakewarden forget TABLE. Then plan again."


class StateMisplacedError(StateError):
    """What Lakewarden writes for itself would lie among the files of a table."""

    code = "LW-STATE-003"
    exit_code = Exit.REFUSED
    hint = "Give the state, or the plan, a directory of its own that no table uses; then run the command again."


class StateBusyError(StateError):
    """Somebody else holds a lock in the database for too long."""

    code = "LW-STATE-004"
    hint = f"{UNCHANGED}Find out who holds a lock in state.database, then run the command again."


class StateUnwritableError(StateError):
    """The disk of the state is full, or may only be read."""

    code = "LW-STATE-005"
    hint = f"{UNCHANGED}Make room, or let the state be written to; then run the command again."


class ArchiveDamagedError(LakewardenError):
    """A file of the archive of snapshots is gone, or is not what was written."""

    code = "LW-HISTORY-001"
    exit_code = Exit.REFUSED
    hint = (
        "Put the file back from a backup. If there is none: `lakewarden run history` archives anew what tables still have, "
        "and notes the rest as lost."
    )
