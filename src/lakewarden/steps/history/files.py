"""Files of the archive: written once under a name that their content gives them, and entered in the ledger or never read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.ledger.history import Entry, HistoryFile, Key
from lakewarden.model.errors import ArchiveDamagedError, StoreUnavailableError
from lakewarden.pipeline.history.rows import checked, month_of, packed, read_file
from lakewarden.steps.deployment import Deployment

TRIES = 8
READ_AT_ONCE = 4


def archive(deployment: Deployment, run_id: str, rows: pa.Table) -> int:
    """Write HISTORY rows and enter them; how many of them were not archived before.

    Whoever else archives the same snapshots meanwhile: each is entered once. A crash before the entry leaves a file that
    nobody reads, and the same rows get the same name when they are archived again.
    """
    for _ in range(TRIES):
        rows = unarchived(deployment, rows)
        if not rows.num_rows:
            return 0
        file = _written(deployment, run_id, rows)
        if deployment.ledger.history.add(file, list(_entries(rows))):
            return int(rows.num_rows)
    raise StoreUnavailableError("other workers archived snapshots of the same tables all the time; try again")


def unarchived(deployment: Deployment, rows: pa.Table) -> pa.Table:
    """Those of the rows that the archive does not have, each once: two catalogs may show one table."""
    keys = [entry.key for entry in _entries(rows)]
    known = deployment.ledger.history.known(keys)
    first = {key: place for place, key in reversed(list(enumerate(keys))) if key not in known}
    return rows.take(pa.array(sorted(first.values()), pa.int64()))


def take_back(deployment: Deployment, file: HistoryFile) -> int | None:
    """Let a file that was noted as lost count again; how many snapshots that brings back. None if it is not whole.

    Whatever was archived anew since has two rows then, and is counted once, as wherever rows of the archive are read.
    """
    try:
        rows = read_file(deployment.stores, file.uri, file.sha256)
    except ArchiveDamagedError:
        return None
    return deployment.ledger.history.find_again(file.uri, list(_entries(rows)))


def damaged_files(deployment: Deployment, files: Sequence[HistoryFile]) -> Iterator[tuple[HistoryFile, str]]:
    """Those of the files that are not what was written, and what is wrong with each. A silent store is raised."""

    def look(file: HistoryFile) -> str | None:
        try:
            checked(deployment.stores, file.uri, file.sha256)
        except ArchiveDamagedError as error:
            return error.message
        return None

    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        yield from ((file, why) for file, why in zip(files, pool.map(look, files), strict=True) if why is not None)


def _written(deployment: Deployment, run_id: str, rows: pa.Table) -> HistoryFile:
    data = packed(rows)
    digest = hashlib.sha256(data).hexdigest()
    times = pc.min_max(rows["committed_ms"]).as_py()
    place = f"{deployment.state}history/detail/{deployment.clock.now():%Y-%m}/{digest}"
    # A name that is taken by other bytes was taken by a write that broke off, or the file was damaged since.
    for number in range(TRIES):
        uri = f"{place}{f'-{number}' if number else ''}.parquet"
        if deployment.stores.create(uri, data) or hashlib.sha256(deployment.stores.get(uri)).hexdigest() == digest:
            return HistoryFile(uri, digest, rows.num_rows, len(data), times["min"], times["max"], run_id)
    raise StoreUnavailableError(f"{place} is taken {TRIES} times by other bytes; nothing was archived")


def _entries(rows: pa.Table) -> Iterator[Entry]:
    columns = (rows[name].to_pylist() for name in ("uuid", "snapshot_id", "digest", "committed_ms"))
    for uuid, snapshot, digest, committed_ms in zip(*columns, strict=True):
        yield Entry(Key(uuid, snapshot, digest), month_of(committed_ms))
