"""Lineage check: finds snapshots that do not say what their table requires."""
