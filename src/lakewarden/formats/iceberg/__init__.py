"""Apache Iceberg: its catalogs, its metadata, its Avro files."""

from lakewarden.formats.iceberg.format import (
    expirer,
    manifest_rewriter,
    open_catalog,
    partition_expirer,
    reader,
    relocator,
)

__all__ = ["expirer", "manifest_rewriter", "open_catalog", "partition_expirer", "reader", "relocator"]
