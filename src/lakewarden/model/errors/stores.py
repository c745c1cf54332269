"""LW-STORE: object stores and file systems."""

from __future__ import annotations

from lakewarden.model.errors.base import UNCHANGED, Exit, LakewardenError


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
    hint = f"{UNCHANGED}Keep the state in a store with conditional writes (or on local disk), then run again."


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
