"""Audit: where data came from, what was made from it, who removed it, and whether the journal is whole."""

from lakewarden.reports.audit.downstream import downstream
from lakewarden.reports.audit.journal import verify
from lakewarden.reports.audit.origin import origin
from lakewarden.reports.audit.who import who

__all__ = ["downstream", "origin", "verify", "who"]
