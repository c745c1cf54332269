"""What the tables of a lake need, read by PyIceberg and from Paimon's own documents: nothing of Lakewarden's is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pyiceberg.table import StaticTable

from tests.formats.paimon.needs import needed_names
from tests.formats.paimon.reading import Ref
from tests.jobs.snapshot_expiry.expiry_site import needed_by
from tests.steps.doubt.kinds import PAIMON
from tests.steps.doubt.members import Member, pointer_of


def needed(members: Iterable[Member]) -> set[Path]:
    """Every file that any of these tables needs, in all of its snapshots, tags and metadata."""
    return {path for member in members for path in _needed(member)}


def _needed(member: Member) -> Iterator[Path]:
    if member.format != PAIMON:
        pointer = pointer_of(member)
        assert pointer is not None
        # As a table, not as a catalog's: nobody else's cache answers here.
        yield from needed_by(StaticTable.from_metadata(pointer))
        return
    names = needed_names(member.home)
    for path in _files(member):
        if path.name in names or path.parent.name in ("schema", "snapshot", "tag"):
            yield path


def needed_by_snapshot(member: Member, number: int) -> set[Path]:
    """What one snapshot of a Paimon table needs beside its own document."""
    names = needed_names(member.home, [Ref(snapshot=number)])
    return {path for path in _files(member) if path.name in names}


def _files(member: Member) -> Iterator[Path]:
    """Every file of a Paimon table, or beside it."""
    for directory in dict.fromkeys((member.home, member.data)):
        yield from (path for path in directory.rglob("*") if path.is_file())
