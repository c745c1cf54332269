"""An edited, missing or reordered row of the journal shows, whichever it is."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from sqlalchemy import text

from lakewarden.ledger.chain import noted_hash
from lakewarden.ledger.connection import connect
from lakewarden.ledger.database import Ledger
from lakewarden.ledger.heads import Head, head_uri, verify_heads, write_head
from lakewarden.model.errors import StateError
from lakewarden.storage.stores import Stores
from tests.ledger.samples import files, outcomes, started
from tests.support.ledger import SteppedClock

SEQ = "UPDATE lw_journal SET seq = {} WHERE seq = {}"
EDITS = {
    "the sums": ["""UPDATE lw_journal SET tallies = '{"deleted": [5, 1]}' WHERE seq = 3"""],
    "the sums removed": ["UPDATE lw_journal SET tallies = NULL WHERE seq = 3"],
    "a bound": ["UPDATE lw_journal SET first_uri = last_uri WHERE seq = 2"],
    "the other bound": ["UPDATE lw_journal SET last_uri = first_uri WHERE seq = 2"],
    "outcomes of another batch": ["UPDATE lw_journal SET content = (SELECT content FROM lw_journal WHERE seq = 5) "
                                  "WHERE seq = 3"],
    "a count": ["UPDATE lw_journal SET count = 4 WHERE seq = 2"],
    "a size": ["UPDATE lw_journal SET total_bytes = 4 WHERE seq = 3"],
    "an instant": ["UPDATE lw_journal SET at = '2026-03-01T12:00:09.000000+00:00' WHERE seq = 3"],
    "a hash": ["UPDATE lw_journal SET hash = prev_hash WHERE seq = 2"],
    "the first entry removed": ["DELETE FROM lw_journal WHERE seq = 0"],
    "a middle entry removed": ["DELETE FROM lw_journal WHERE seq = 2"],
    "a whole batch removed": ["DELETE FROM lw_journal WHERE batch_no = 1"],
    "entries swapped": [SEQ.format(99, 2), SEQ.format(2, 3), SEQ.format(3, 99)],
    "a batch renumbered": ["UPDATE lw_journal SET batch_no = 7 WHERE batch_no = 1"],
    "the operator": ["UPDATE lw_runs SET operator = 'eve'"],
    "the plan": ["UPDATE lw_runs SET plan_id = 'plan-9'"],
}  # fmt: skip


def edit(url: str, clock: SteppedClock, statements: list[str], **values: object) -> None:
    connections = connect(url, clock)
    with connections.write() as connection:
        for statement in statements:
            connection.execute(text(statement), values)
    connections.close()


@pytest.fixture
def journaled(ledger: Ledger) -> Ledger:
    started(ledger)
    for number in range(3):
        batch = files(5, batch=number)
        ledger.journal.intent("run-1", number, batch)
        ledger.journal.outcomes("run-1", number, outcomes(batch, ("deleted", "absent", "kept")[number]))
    assert ledger.journal.verify("run-1") == []
    return ledger


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_shows(journaled: Ledger, ledger_url: str, clock: SteppedClock, what: str) -> None:
    edit(ledger_url, clock, EDITS[what])
    assert journaled.journal.verify("run-1") != []


@pytest.mark.parametrize("content", [zlib.compress(b"[]"), b"damaged"])
@pytest.mark.parametrize("seq", [2, 3])
def test_an_edited_content_shows(
    journaled: Ledger, ledger_url: str, clock: SteppedClock, seq: int, content: bytes
) -> None:
    edit(ledger_url, clock, ["UPDATE lw_journal SET content = :content WHERE seq = :seq"], content=content, seq=seq)
    problems = journaled.journal.verify("run-1")
    assert len(problems) == 1
    assert "batch 1" in problems[0]


def test_an_unknown_run_is_a_problem(ledger: Ledger) -> None:
    assert ledger.journal.verify("run-9") == ["run run-9 is not in the ledger"]


def nothing(run_id: str, many: int) -> str:
    """Of a run that noted no step."""
    return noted_hash([])


def test_a_cut_tail_shows_in_the_kept_head(
    journaled: Ledger, ledger_url: str, clock: SteppedClock, tmp_path: Path
) -> None:
    stores, place = Stores(), f"file://{tmp_path}/place/"
    head = journaled.journal.head("run-1")
    write_head(stores, place, "run-1", Head(head, 0, noted_hash([])))
    write_head(stores, place, "run-1", Head(head, 3, "closed again, with more steps"))
    assert verify_heads(stores, place, {"run-1": head}, nothing) == []
    edit(ledger_url, clock, ["DELETE FROM lw_journal WHERE batch_no = 2"])
    assert journaled.journal.verify("run-1") == [], "a shorter chain is a whole chain"
    cut = journaled.journal.head("run-1")
    assert len(verify_heads(stores, place, {"run-1": cut}, nothing)) == 1
    with pytest.raises(StateError, match="another journal head"):
        write_head(stores, place, "run-1", Head(cut, 0, noted_hash([])))
    assert verify_heads(stores, place, {"run-1": head}, nothing) == [], "what was kept is never replaced"


def test_a_head_that_is_missing_or_damaged_shows(tmp_path: Path) -> None:
    stores, place = Stores(), f"file://{tmp_path}/place"
    stores.create(head_uri(place, "b"), b"{")
    problems = verify_heads(stores, place, {"a": "0" * 64, "b": "0" * 64}, nothing)
    assert ["no head" in problems[0], "cannot be read" in problems[1]] == [True, True]
