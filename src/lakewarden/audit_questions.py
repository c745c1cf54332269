"""Audit, as users of the Python API ask it: the part of the Warden that answers where data came from and where it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakewarden.model.arguments import checks_arguments

if TYPE_CHECKING:
    from lakewarden.steps.deployment import Deployment

SHOWN = 500


@checks_arguments
class AuditQuestions:
    """Questions that change nothing. Every method raises LakewardenError and nothing else."""

    @property
    def _deployment(self) -> Deployment:
        raise NotImplementedError

    def audit_origin(self, subject: str) -> dict[str, Any]:
        """Which commit wrote a file, or what a snapshot is: writer, version, time, trigger, operator, ticket, inputs."""
        from lakewarden.reports.audit import origin

        return origin(self._deployment, subject)

    def audit_downstream(self, snapshot: str, limit: int = SHOWN) -> dict[str, Any]:
        """Every snapshot that was made from this one, directly or not, over all tables, live and archived."""
        from lakewarden.reports.audit import downstream

        return downstream(self._deployment, snapshot, limit)

    def audit_verify(self, run_id: str | None = None) -> dict[str, Any]:
        """Recompute the journal's chains, and compare their heads with the ones kept beside them."""
        from lakewarden.reports.audit import verify

        return verify(self._deployment, run_id)

    def audit_who(self, uri: str) -> list[dict[str, Any]]:
        """Whose hand it was: every deletion of a file, what compaction did with it, who made or expired a snapshot."""
        from lakewarden.reports.audit import who

        return who(self._deployment, uri)
