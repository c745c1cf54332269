"""Apache Paimon: its catalogs, its metadata, its Avro files."""

from lakewarden.formats.paimon.format import open_format

__all__ = ["open_format"]
