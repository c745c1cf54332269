"""Lakewarden looks after Iceberg and Paimon tables, and never deletes a file that anything still needs."""

from lakewarden.opening import heartbeat, lineage, open, validate_lineage

__all__ = ["__version__", "heartbeat", "lineage", "open", "validate_lineage"]
__version__ = "0.1.0"
