"""Shelf, a table format that nobody at Lakewarden has heard of, as somebody else would add it: one package, no edit in src/.

A catalog is a directory of tables. A table has `state-N.json`, of which the highest is current: created, never replaced. It
names snapshots; a snapshot's list names manifests with their lengths and counts; a manifest names data files. All are JSON.
"""

from tests.formats.third.shelf import open_format

__all__ = ["open_format"]
