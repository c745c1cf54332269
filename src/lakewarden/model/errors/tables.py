"""LW-CATALOG and LW-TABLE: catalogs, and tables that are left alone."""

from __future__ import annotations

from lakewarden.model.errors.base import UNCHANGED, Exit, LakewardenError


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
    hint = f"{UNCHANGED}Look at the server, or at what stands between it and here, then run the command again."


class TableListedError(LakewardenError):
    """A table that a catalog lists cannot be given up."""

    code = "LW-CATALOG-005"
    exit_code = Exit.REFUSED
    hint = "Drop the table from its catalog first, if it is to go; a table that a catalog lists is never abandoned."


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


class LeftToEngineError(UnsupportedTableError):
    """What only the format's own engine writes exactly."""

    hint = (
        "Iceberg's own writers can: put its runtime on Spark's class path "
        '("spark.jars.packages" in [spark.conf]), or compact this table with rewrite_data_files.'
    )


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
