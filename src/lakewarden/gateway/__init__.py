"""A proxy in front of an Iceberg REST catalog that lets no commit through which does not say what its table requires."""
