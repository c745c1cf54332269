"""Benchmarks against Iceberg's own `remove_orphan_files`: same data, same process. Nothing here fails on time."""
