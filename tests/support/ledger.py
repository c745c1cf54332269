"""A real ledger for each test, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.ledger.database import Ledger, open_ledger
from lakewarden.ledger.pending import WAITING


class SteppedClock:
    """A clock that moves one millisecond a look, and as far as a test says."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)

    def now(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at

    def boot(self) -> float:
        return self.now().timestamp()

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/state/ledger.db"


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def ledger(ledger_url: str, clock: SteppedClock) -> Iterator[Ledger]:
    """An open, empty ledger."""
    with open_ledger(ledger_url, clock) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file that no snapshot needs since `released_at`, by the expiry run that let it go, as that run listed it."""

    run_id: str
    table: str
    uri: str
    size: int
    released_at: datetime
    modified: datetime | None = None
    etag: str | None = None
    kind: str = "other"


def release(ledger: Ledger, files: Iterable[PendingFile]) -> None:
    """Enter released files as an expiry does, in the order given."""
    planned = pa.schema([field for field in WAITING if field.name != "released_at"])
    for (run_id, released_at), some in groupby(files, lambda file: (file.run_id, file.released_at)):
        rows = pa.RecordBatch.from_pylist([asdict(file) for file in some], schema=planned)
        ledger.pending.add_rows(run_id, released_at, [rows])


def due_files(ledger: Ledger, due: datetime) -> Counter[str]:
    """By table, how many files were released up to an instant, as physical deletion reads them."""
    return Counter(name for rows in ledger.pending.iter_tables(due) for name in rows["table"].to_pylist())
