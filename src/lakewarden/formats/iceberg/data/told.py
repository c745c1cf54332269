"""What a table's manifests say of its files, held against what the files' own footers say.

Copied row groups take their counts and bounds from footers. Two witnesses that agree are believed; where they do not, the
rows are read, and tell themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.formats.iceberg.data.foreign_footer import NotCopiedError
from lakewarden.formats.iceberg.data.metrics import Metrics
from lakewarden.formats.iceberg.data.order import Told
from lakewarden.formats.iceberg.data.row_groups import Leaf, Piece
from lakewarden.formats.iceberg.data.statistics import Ends, as_column, ends_of


def told_of(file: Mapping[str, Any]) -> Told:
    """What a manifest's entry says of a data file, as far as a footer says it too."""
    lower, upper, nulls = (dict(_pairs(file.get(n))) for n in ("lower_bounds", "upper_bounds", "null_value_counts"))
    return Told(
        {number: bytes(value).hex() for number, value in lower.items()},
        {number: bytes(value).hex() for number, value in upper.items()},
        {number: int(value) for number, value in nulls.items()},
    )


def check_told(path: str, told: Told, pieces: Sequence[Piece], kinds: Mapping[Leaf, Any], metrics: Metrics) -> None:
    """Raise NotCopiedError if the row groups of a file say of a column what the table's manifest does not. `metrics` are
    new ones."""
    known: list[int] = []
    for leaf, kind in kinds.items():
        number = leaf.element.number
        if number is None or not metrics.wanted(number):
            continue
        said = [ends_of(piece.footer, leaf.place, piece.chunk(leaf), leaf.element) for piece in pieces]
        if any(one is None for one in said):
            continue  # its rows are read
        ends = [one for one in said if isinstance(one, Ends)]
        for one in ends:
            metrics.count(number, one.values, one.nulls)
        if values := [value for one in ends for value in one.ends]:
            metrics.widen(number, as_column(values, kind))
        known.append(number)
    _, nulls, _ = metrics.counts()
    lower, upper = metrics.bounds()
    for number in known:
        # Where either of them is silent, there is nothing to compare: another mode of metrics was wanted then.
        same = told.nulls.get(number, nulls.get(number)) == nulls.get(number)
        for manifest, footer in ((told.lower, lower), (told.upper, upper)):
            same = same and (number not in manifest or number not in footer or manifest[number] == footer[number].hex())
        if not same:
            raise NotCopiedError(f"the footer of {path} says of column {number} what the table's manifest does not")


def _pairs(found: Any) -> list[tuple[int, Any]]:
    if isinstance(found, Mapping):
        return [(int(number), value) for number, value in found.items()]
    return [(int(item["key"]), item["value"]) for item in found or ()]
