"""LW-PLAN, LW-APPLY and LW-RESTORE: documents that are not obeyed, and runs that end early."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.model.errors.base import Exit, LakewardenError
from lakewarden.model.errors.tables import CatalogUnavailableError


class PlanError(LakewardenError):
    """A plan that can no longer be trusted as it is."""

    code = "LW-PLAN-001"
    exit_code = Exit.STALE
    hint = "Make a new plan: `lakewarden plan JOB`."


class PlanEditedError(PlanError):
    code = "LW-PLAN-002"


class PlanExpiredError(PlanError):
    code = "LW-PLAN-003"


class PlanUsedError(PlanError):
    code = "LW-PLAN-004"
    hint = "A plan is used once. `lakewarden runs` shows what it did; make a new plan for what is left."


class PlanOutdatedError(PlanError):
    code = "LW-PLAN-005"
    hint = "The lake changed in a way the plan did not know. Make a new plan."


class TableMovedError(PlanOutdatedError):
    """The table changed before anything of it was."""


class FrozenError(LakewardenError):
    code = "LW-APPLY-001"
    exit_code = Exit.REFUSED
    hint = "Somebody froze this deployment; `lakewarden unfreeze` lifts it."


class StaleValidationError(LakewardenError):
    code = "LW-APPLY-002"
    hint = "Nothing of this batch was deleted. Run apply again: it goes on where it stopped."


class TooManyAbsentError(LakewardenError):
    code = "LW-APPLY-003"
    hint = "Somebody else is deleting here, or the store lost files. Find out who before you plan again."


class InvariantViolationError(LakewardenError):
    code = "LW-APPLY-004"
    hint = "A file that was deleted became reachable meanwhile. Restore it now: `lakewarden restore RUN`, or from a backup."


class NeedsApprovalError(LakewardenError):
    code = "LW-APPLY-005"
    exit_code = Exit.USAGE
    hint = "Look at it with `lakewarden show PLAN_DIR`, then run apply again with --yes."


class NothingAppliedError(LakewardenError):
    code = "LW-APPLY-006"
    exit_code = Exit.REFUSED
    hint = "Every table of this plan was refused. `lakewarden show PLAN_DIR` says why for each."


class LostRefError(LakewardenError):
    """The commit was made, and somebody's ref went with it or may have. `changes` counts what the commit took."""

    code = "LW-APPLY-007"
    hint = "Every byte is still there. Make the ref again from the archived metadata; then plan again."

    def __init__(self, message: str, changes: Mapping[str, int]) -> None:
        super().__init__(message)
        self.changes = changes


class ColdCopyLostError(LakewardenError):
    code = "LW-APPLY-008"
    exit_code = Exit.PARTIAL
    hint = "Bring the copy back, or hand the table over again, then plan physical-deletion again."


class DoubtfulCommitError(CatalogUnavailableError):
    """Nobody said whether a commit was made, and it may still be."""

    code = "LW-APPLY-009"
    hint = (
        "Look whether the table's snapshots are gone, and whether its branches and tags are all there; then plan again."
    )


class RestoreError(LakewardenError):
    code = "LW-RESTORE-001"
    hint = (
        'A run with delete_mode = "quarantine" can be restored until its purge date, a run of stale-branches as long as '
        "its snapshots are there; a snapshot in the cold place comes back with --from-cold."
    )


class BranchNotRestoredError(RestoreError):
    """A branch that a run removed and that cannot be made again as it was."""

    hint = "A branch is made again where its name is free and its snapshot is still there. `lakewarden runs RUN` has its record."


class DrillFailedError(LakewardenError):
    """What was put away does not come back."""

    code = "LW-RESTORE-002"
    hint = "Switch jobs to dry_run until it is found out why: what they put away may be lost. Then: lakewarden restore --drill."
