"""Months of the archive, summed up: one file a month, written by Spark, whose sums are compared with the ledger's."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakewarden.ledger.history import Month
from lakewarden.model.errors import ArchiveDamagedError
from lakewarden.pipeline.history.rows import FILES, month_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark


def sum_up(deployment: Deployment, months: Sequence[str]) -> list[Month]:
    """The summaries of these months, written; none while others archive. Raises ArchiveDamagedError where their sums would not be the archive's."""
    known = deployment.ledger.history.files()
    first, last = months[0], months[-1]
    files = [
        {"uri": file.uri, "sha256": file.sha256}
        for file in known
        if file.lost is None and month_of(file.first_ms) <= last and month_of(file.last_ms) >= first
    ]
    place = f"{deployment.state}history/monthly/"
    session = deployment.warm_spark()

    def write() -> pa.Table:
        from lakewarden.pipeline.history.monthly import write_months

        return write_months(
            session.result(), pa.Table.from_pylist(files, schema=FILES), months, place, deployment.stores
        )

    written = in_spark(write).to_pylist()
    if (note := next((row["uri"] for row in written if not row["month"]), None)) is not None:
        raise ArchiveDamagedError(f"{note}; no month was summed up")
    try:
        _check(deployment, written)
    except ArchiveDamagedError:
        if deployment.ledger.history.files() != known:
            return []  # another worker archived meanwhile: the months stay due
        raise
    now = deployment.clock.now()
    return [Month(made_at=now, **row) for row in sorted(written, key=lambda row: row["month"])]


def _check(deployment: Deployment, written: Sequence[dict[str, object]]) -> None:
    """A month's summary has as many snapshots as the ledger knows of it, or it does not count."""
    known: dict[str, int] = {}
    for (month, _), count in deployment.ledger.history.by_month().items():
        known[month] = known.get(month, 0) + count
    for row in written:
        if known.get(str(row["month"])) != row["snapshots"]:
            raise ArchiveDamagedError(
                f"the archive files have {row['snapshots']} snapshots of {row['month']}, and the ledger knows "
                f"{known.get(str(row['month']), 0)}; the month was not summed up"
            )
