"""Lineage for users' own writers: the keys of `lakewarden.lineage(…)` on PySpark, Spark SQL and PyIceberg writes."""

from lakewarden.writers.lineage import OPTION, Lineage, lineage
from lakewarden.writers.session import SETTING

__all__ = ["OPTION", "SETTING", "Lineage", "lineage"]
