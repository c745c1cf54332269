"""Apache Iceberg: its catalogs, its metadata, its Avro files."""

from lakewarden.formats.iceberg.format import open_format

__all__ = ["open_format"]
