"""Apache Iceberg: its catalogs, its metadata, its Avro files."""

from lakewarden.formats.iceberg.opening import open_catalog, reader

__all__ = ["open_catalog", "reader"]
