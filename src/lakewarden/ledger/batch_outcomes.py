"""What became of a batch, as the journal keeps it: in the order announced, neighbours of one end told together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from lakewarden.ledger.chain import unpack
from lakewarden.model.files import BatchFiles
from lakewarden.model.plan import Tallies, Tally
from lakewarden.model.ports import FileOutcome, JournalFile

MESSAGE_LENGTH = 1000
_END = attrgetter("outcome", "code", "message")


class Stretch(NamedTuple):
    """Files that follow each other in a batch and met the same end."""

    outcome: str
    code: str | None
    message: str | None
    length: int


@dataclass(frozen=True, slots=True)
class Settled:
    """Every file of a batch with what became of it, and the sums."""

    files: BatchFiles
    stretches: tuple[Stretch, ...]
    tallies: Tallies


def settle(files: Sequence[JournalFile], found: Sequence[FileOutcome]) -> Settled:
    """The outcomes of exactly these files, whatever their order. Raises ValueError if one is missing or too many."""
    announced = BatchFiles.of(files)
    if [outcome.uri for outcome in found] != announced.uris:
        found = _in_order(announced, found)
    stretches: list[Stretch] = []
    tallies: dict[str, Tally] = {}
    start = 0
    for (outcome, code, message), group in groupby(found, key=_END):
        count = len(list(group))
        size = sum(announced.sizes[start : start + count])
        tallies[str(outcome)] = tallies.get(str(outcome), Tally()) + Tally(count, size)
        stretches.append(Stretch(str(outcome), code, message and message[:MESSAGE_LENGTH], count))
        start += count
    return Settled(announced, tuple(stretches), tallies)


def stretches_of(content: bytes) -> list[Stretch]:
    """The content of an outcome entry, read back."""
    return [Stretch(*values) for values in unpack(content)]


def outcome_at(stretches: Sequence[Stretch], place: int) -> str:
    """What became of the file in that place of the batch."""
    for stretch in stretches:
        place -= stretch.length
        if place < 0:
            return stretch.outcome
    raise IndexError("the batch has fewer files")


def rows_of(files: BatchFiles, stretches: Sequence[Stretch]) -> Iterator[tuple[JournalFile, FileOutcome]]:
    """Each file with its outcome, in the order announced."""
    start = 0
    for stretch in stretches:
        for place in range(start, start + stretch.length):
            yield files[place], FileOutcome(files.uris[place], stretch.outcome, stretch.code, stretch.message)
        start += stretch.length


def _in_order(files: BatchFiles, found: Sequence[FileOutcome]) -> list[FileOutcome]:
    by_uri = {outcome.uri: outcome for outcome in found}
    if len(found) != len(files) or by_uri.keys() != set(files.uris):
        raise ValueError(f"{len(found)} outcomes do not match the {len(files)} files that were announced")
    return [by_uri[uri] for uri in files.uris]
