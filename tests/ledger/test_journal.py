"""The journal: intent before, outcome after, and nothing that can be changed unseen."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakewarden.ledger.database import Ledger
from lakewarden.ledger.journal import OPEN
from lakewarden.model.errors import NotFoundError, StateError
from lakewarden.model.plan import Tally
from lakewarden.model.ports import FileOutcome
from tests.ledger.samples import ACTOR, files, outcomes, started


def test_a_batch_is_open_between_intent_and_outcome(ledger: Ledger) -> None:
    started(ledger)
    first, second = files(5), files(3, batch=1)
    assert ledger.journal.next_batch("run-1") == 0
    ledger.journal.intent("run-1", 0, first)
    ledger.journal.intent("run-1", 1, second)
    assert ledger.journal.open_batches("run-1") == [(0, tuple(first)), (1, tuple(second))]
    ledger.journal.outcomes("run-1", 0, outcomes(first))
    assert ledger.journal.open_batches("run-1") == [(1, tuple(second))]
    assert ledger.journal.next_batch("run-1") == 2
    assert ledger.journal.verify("run-1") == []


def test_done_counts_files_and_bytes_by_outcome(ledger: Ledger) -> None:
    started(ledger)
    batch = files(4)
    ledger.journal.intent("run-1", 0, batch)
    found = [*outcomes(batch[:3]), FileOutcome(batch[3].uri, "failed", "LW-STORE-001", "no\x00thing " + "x" * 5000)]
    ledger.journal.outcomes("run-1", 0, list(reversed(found)))
    assert ledger.journal.done("run-1") == {"deleted": Tally(3, 3003), "failed": Tally(1, 1003)}
    rows = list(ledger.journal.outcome_rows("run-1"))
    assert [file for file, _ in rows] == batch
    [(file, failed)] = ledger.journal.outcome_rows("run-1", "failed")
    assert (file, failed.uri, failed.code) == (batch[3], batch[3].uri, "LW-STORE-001")
    assert failed.message is not None
    assert failed.message.startswith("no\\0thing")
    assert ledger.journal.verify("run-1") == []


def test_outcomes_must_be_those_of_the_files_announced(ledger: Ledger) -> None:
    started(ledger)
    batch = files(3)
    ledger.journal.intent("run-1", 0, batch)
    for wrong in (outcomes(batch[:2]), outcomes([*batch[:2], batch[0]]), outcomes([*batch[:2], *files(1, batch=7)])):
        with pytest.raises(ValueError, match="do not match"):
            ledger.journal.outcomes("run-1", 0, wrong)
    assert len(ledger.journal.open_batches("run-1")) == 1
    assert ledger.journal.done("run-1") == {}


def test_what_the_journal_does_not_accept(ledger: Ledger) -> None:
    with pytest.raises(NotFoundError):
        ledger.journal.intent("run-9", 0, files(1))
    started(ledger)
    with pytest.raises(ValueError, match="twice"):
        ledger.journal.intent("run-1", 0, files(1) * 2)
    with pytest.raises(StateError, match="not open"):
        ledger.journal.outcomes("run-1", 0, [])
    ledger.journal.intent("run-1", 0, files(1))
    with pytest.raises(StateError, match="begun before"):
        ledger.journal.intent("run-1", 0, files(1))
    ledger.journal.outcomes("run-1", 0, outcomes(files(1)))
    with pytest.raises(StateError, match="not open"):
        ledger.journal.outcomes("run-1", 0, outcomes(files(1)))
    ledger.runs.finish("run-1", "done", {})
    with pytest.raises(StateError, match="finished"):
        ledger.journal.intent("run-1", 1, files(1))


def test_who_deleted_a_file_is_found_under_any_spelling(ledger: Ledger) -> None:
    for run_id in ("run-1", "run-2"):
        started(ledger, run_id, f"plan-of-{run_id}")
        ledger.journal.intent(run_id, 0, files(3))
    ledger.journal.outcomes("run-1", 0, outcomes(files(3)))
    uri = files(3)[1].uri.replace("s3://", "s3a://")
    found = ledger.journal.find(uri)
    assert [(d.run_id, d.batch_no, d.outcome, d.actor, d.plan_id) for d in found] == [
        ("run-2", 0, OPEN, ACTOR, "plan-of-run-2"),
        ("run-1", 0, "deleted", ACTOR, "plan-of-run-1"),
    ]
    assert ledger.journal.find("s3://lake/wh/other.parquet") == []


def test_threads_write_one_chain(ledger: Ledger) -> None:
    started(ledger)

    def work(number: int) -> None:
        batch = files(20, batch=number)
        ledger.journal.intent("run-1", number, batch)
        ledger.runs.step("run-1", "batch", {"number": number})
        ledger.journal.outcomes("run-1", number, outcomes(batch))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, range(40)))
    assert ledger.journal.verify("run-1") == []
    assert ledger.journal.done("run-1") == {"deleted": Tally(800, 40 * sum(range(1000, 1020)))}
    assert len(ledger.runs.steps("run-1")) == 40


def test_journaling_is_fast(ledger: Ledger, ledger_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    started(ledger)
    before, after = [], []
    for number in range(10):
        batch = files(1000, batch=number)
        begin = time.perf_counter()
        ledger.journal.intent("run-1", number, batch)
        middle = time.perf_counter()
        ledger.journal.outcomes("run-1", number, outcomes(batch))
        before.append(middle - begin)
        after.append(time.perf_counter() - middle)
    with capsys.disabled():
        kind = ledger_url.partition(":")[0]
        print(f"\n{kind}: 1,000 files: intent {1000 * min(before):.1f} ms, outcomes {1000 * min(after):.1f} ms")
    assert min(after) < 0.5
