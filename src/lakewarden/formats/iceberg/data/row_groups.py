"""Which row groups may be copied into a new file as they are, and into which.

Only where the result is what reading and writing the rows would leave: no deletes, the columns of the table as they are
now, the codec that the table wants, row groups that are large enough. Whatever else is found, the rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewarden.formats.iceberg.data.foreign_footer import ORDERS, Chunk, Footer, NotCopiedError, RowGroup
from lakewarden.formats.iceberg.data.form import BLOOM, CODEC, PREFIX, ROW_GROUP, Form
from lakewarden.formats.iceberg.data.order import Order
from lakewarden.formats.iceberg.data.parquet_schema import OPTIONAL, REQUIRED, Element, elements_of, leaves_of
from lakewarden.formats.iceberg.data.statistics import ends_of, recent
from lakewarden.model.errors import IncompleteManifestError

# Copied row groups stay as they are, so small ones would be small for ever.
LEAST_AVERAGE = 8 << 20
# A row group is measured while it is written, so it ends somewhat above the size that was asked for.
_MOST = 1.5
# Indexes of pages are in memory together until the file ends. They are about a thousandth of their row groups.
MOST_INDEXES = 64 << 20
# What Parquet calls the codecs that a table may want. Of two called LZ4, the one that everybody reads.
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
# Parquet's readers mend what old versions of its writers got wrong, by the name in the footer. Row groups of several
# writers that need no mending get this one, in the form that they can read.
CREATED_BY = "lakewarden version 0.1.0"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column with values: its place in every row group, its path, and whether it is within a list or map."""

    place: int
    path: tuple[str, ...]
    element: Element
    repeated: bool

    @staticmethod
    def of(elements: Sequence[Element]) -> list[Leaf]:
        return [Leaf(place, *found) for place, found in enumerate(leaves_of(elements))]


@dataclass(frozen=True, slots=True)
class Piece:
    """A row group: of which input, the how manieth of it, and what its file says of it."""

    source: int
    number: int
    footer: Footer
    group: RowGroup

    def chunk(self, leaf: Leaf) -> Chunk:
        return self.group.chunks[leaf.place]


def why_not(order: Order) -> str | None:
    """What keeps the row groups of a group from being copied, as far as its order tells without a look at the files."""
    if any(one.deletes for one in order.inputs):
        return "deletes apply to it"
    if order.sort is not None:
        return "its rows are to be sorted"
    for key, value in sorted(order.properties.items()):
        unwanted = key.startswith(BLOOM) and value.strip().lower() != "true"
        if key.startswith(PREFIX) and key not in (CODEC, ROW_GROUP) and not unwanted:
            return f"the table sets {key}, which only a new encoding obeys"
    return (
        "its row groups are small" if _small(order, sum(one.size for one in order.inputs), len(order.inputs)) else None
    )


def _small(order: Order, size: int, count: int) -> bool:
    return size < count * min(LEAST_AVERAGE, Form.of(order.properties).row_group // 2)


def checked_pieces(
    order: Order, footers: Sequence[Footer], elements: Sequence[Element], lineage: Mapping[str, int]
) -> list[Piece]:
    """The row groups of the inputs, all of which can stand in files of the table. Raises NotCopiedError, and
    IncompleteManifestError if an input has other rows than its manifest says."""
    leaves = Leaf.of(elements)
    pieces: list[Piece] = []
    for place, (one, footer) in enumerate(zip(order.inputs, footers, strict=True)):
        if footer.rows != one.rows:
            raise IncompleteManifestError(
                f"{one.path} has {footer.rows} rows and should have {one.rows}; nothing was rewritten"
            )
        if not recent(footer.created_by):
            raise NotCopiedError(f"{one.path} was written by {footer.created_by or 'nobody knows which library'}")
        found = elements_of(footer.schema)
        if not _fits(found, elements):
            raise NotCopiedError(f"{one.path} has other columns than the table has now")
        if found != elements_of(footers[0].schema):
            raise NotCopiedError("some of its files say of a column that it is never null, and others do not")
        if footer.struct.get(ORDERS) != footers[0].struct.get(ORDERS):
            raise NotCopiedError("files compare their values in different ways")
        for number, group in enumerate(footer.groups):
            piece = Piece(place, number, footer, group)
            _check(order, piece, leaves, lineage)
            if group.rows:
                pieces.append(piece)
    if not pieces:
        raise NotCopiedError("it has no rows")
    if sum(piece.group.index_bytes for piece in pieces) > MOST_INDEXES:
        raise NotCopiedError(f"the indexes of its pages have more than {MOST_INDEXES} bytes")
    if _small(order, sum(piece.group.bytes for piece in pieces), len(pieces)):
        raise NotCopiedError("its row groups are small")
    return pieces


def _fits(found: Sequence[Element], elements: Sequence[Element]) -> bool:
    """Whether a file has these columns. It may say that one is never null which in the table may be: Spark says so of rows that
    have none."""
    if len(found) != len(elements):
        return False
    return all(
        one._replace(repetition=0) == other._replace(repetition=0)
        and (one.repetition, other.repetition) in ((other.repetition, other.repetition), (REQUIRED, OPTIONAL))
        for one, other in zip(found, elements, strict=True)
    )


def _check(order: Order, piece: Piece, leaves: Sequence[Leaf], lineage: Mapping[str, int]) -> None:
    path, group, form = order.inputs[piece.source].path, piece.group, Form.of(order.properties)
    if [chunk.path for chunk in group.chunks] != [tuple(name.encode() for name in leaf.path) for leaf in leaves]:
        raise NotCopiedError(f"{path} has a row group with other columns than its schema")
    if any(chunk.codec != _CODECS.get(form.codec) for chunk in group.chunks):
        raise NotCopiedError(f"{path} is not compressed by {form.codec}, as the table wants")
    if group.bytes > _MOST * form.row_group:
        raise NotCopiedError(f"{path} has a row group that is larger than the table wants")
    for leaf in leaves:
        chunk = piece.chunk(leaf)
        if chunk.values < group.rows or (chunk.values > group.rows and not leaf.repeated):
            raise NotCopiedError(f"{path} has columns of different length")
        if leaf.element.number in lineage.values():
            # A row that does not store its id has it by its place in its file, and would get another.
            found = ends_of(piece.footer, leaf.place, chunk, leaf.element)
            if found is None or found.nulls:
                raise NotCopiedError(f"{path} does not store the ids of its rows")


def created_by(footers: Sequence[Footer]) -> str:
    """Who wrote the row groups, if it was one library."""
    names = {footer.created_by for footer in footers}
    return names.pop() if len(names) == 1 else CREATED_BY


def bins(order: Order, pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The row groups in order, cut into files that the next plan leaves alone. Raises NotCopiedError if they cannot be."""
    total = sum(piece.group.bytes for piece in pieces)
    if total <= order.target:
        return [list(pieces)]
    count = -(-total // order.target)
    found: list[list[Piece]] = [[] for _ in range(count)]
    before = 0
    for piece in pieces:
        found[(2 * before + piece.group.bytes) * count // (2 * total)].append(piece)
        before += piece.group.bytes
    least, most = order.sizes
    if not all(least <= sum(piece.group.bytes for piece in some) <= most for some in found):
        raise NotCopiedError("its row groups do not make up files of the right size")
    return found
