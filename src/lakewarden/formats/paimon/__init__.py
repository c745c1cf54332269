"""Apache Paimon: its catalogs, its metadata, its Avro files."""

from lakewarden.formats.paimon.format import expirer, open_catalog, partition_expirer, reader

__all__ = ["expirer", "open_catalog", "partition_expirer", "reader"]
