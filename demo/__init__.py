"""A small lake with orphans in it, cleaned by the real commands and checked row for row."""
