"""Catalogs that are servers."""
