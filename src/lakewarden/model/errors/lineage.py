"""LW-LINEAGE: commits that do not say what their table wants to know of them."""

from __future__ import annotations

from lakewarden.model.errors.base import Exit, LakewardenError


class LineageError(LakewardenError):
    code = "LW-LINEAGE-001"
    exit_code = Exit.REFUSED
    hint = (
        "Give the missing keys to lakewarden.lineage(…) or to the commit itself, or change the table's property "
        "lineage.required-keys."
    )
