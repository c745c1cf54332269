"""The journal: intent before, outcome after, and nothing that can be changed unseen."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakewarden.ledger.batch_outcomes import settle
from lakewarden.ledger.database import Ledger
from lakewarden.ledger.journal import OPEN
from lakewarden.ledger.progress import CleanupProgress
from lakewarden.model.errors import NotFoundError, StateError
from lakewarden.model.plan import Tally
from lakewarden.model.ports import FileOutcome, JournalFile
from tests.ledger.samples import ACTOR, NOON, files, outcomes, started


def test_a_batch_is_open_between_intent_and_outcome(ledger: Ledger) -> None:
    started(ledger)
    first, second = files(5), files(3, batch=1)
    assert ledger.journal.next_batch("run-1") == 0
    ledger.journal.intent("run-1", 0, first)
    ledger.journal.intent("run-1", 1, second)
    assert [(no, list(found)) for no, found in ledger.journal.open_batches("run-1")] == [(0, first), (1, second)]
    ledger.journal.outcomes("run-1", 0, outcomes(first))
    assert [(no, list(found)) for no, found in ledger.journal.open_batches("run-1")] == [(1, second)]
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
    assert failed.message == ("no\x00thing " + "x" * 5000)[:1000]
    assert ledger.journal.verify("run-1") == []


def test_each_file_keeps_its_own_end(ledger: Ledger) -> None:
    """Neighbours of one end are told together; a file's end must still be its own."""
    started(ledger)
    batch = files(7)
    ends = ["deleted", "deleted", "absent", "deleted", "failed", "failed", "kept"]
    codes = [None, None, None, None, "A", "B", None]
    ledger.journal.intent("run-1", 0, batch)
    became = [FileOutcome(file.uri, end, code) for file, end, code in zip(batch, ends, codes, strict=True)]
    ledger.journal.outcomes("run-1", 0, became)
    assert [outcome for _, outcome in ledger.journal.outcome_rows("run-1")] == became
    assert [ledger.journal.find(file.uri)[0].outcome for file in batch] == ends
    assert {name: tally.files for name, tally in ledger.journal.done("run-1").items()} == {
        "absent": 1, "deleted": 3, "failed": 2, "kept": 1,
    }  # fmt: skip
    assert [file for file, _ in ledger.journal.outcome_rows("run-1", "failed")] == batch[4:6]


def test_progress_is_recorded_with_the_outcome_or_not_at_all(ledger: Ledger) -> None:
    started(ledger)
    batch = files(3)
    reached = CleanupProgress("run-1", NOON, "prod.orders", 3, 3, 3, 0, NOON)
    ledger.journal.intent("run-1", 0, batch)
    with pytest.raises(ValueError, match="do not match"):
        ledger.journal.outcomes("run-1", 0, settle(files(3, batch=7), outcomes(files(3, batch=7))), reached)
    assert ledger.progress.get("run-1") is None
    ledger.journal.outcomes("run-1", 0, settle(batch, outcomes(batch)), reached)
    assert ledger.progress.get("run-1") == reached


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


def test_a_file_is_found_whatever_its_neighbours_are(ledger: Ledger) -> None:
    """A batch is found by bounds of its addresses: long ones are cut, and every database must order them alike."""
    started(ledger)
    names = ["s3://b/t/" + name for name in ("Z", "a", "é", "z" * 900, "z" * 900 + "a", "\U0001f600", "#1", "a b")]
    batches = [names, [f"s3://b/t/{'z' * 899}b"], ["s3://b/t/zz"]]
    for number, uris in enumerate(batches):
        batch = [JournalFile(uri, 1, None, None, "t", "data") for uri in uris]
        ledger.journal.intent("run-1", number, batch)
        ledger.journal.outcomes("run-1", number, outcomes(batch))
    for number, uris in enumerate(batches):
        assert {uri: [d.batch_no for d in ledger.journal.find(uri)] for uri in uris} == {uri: [number] for uri in uris}
    assert ledger.journal.find("s3://b/t/" + "z" * 901) == []


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
