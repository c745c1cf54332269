"""Lakewarden looks after Iceberg and Paimon tables, and never deletes a file that anything still needs."""

from lakewarden.opening import open

__all__ = ["__version__", "open"]
__version__ = "0.1.0"
