"""How branches stand to main, by one pass over a document, however many there are and however long their history is."""

from __future__ import annotations

import time
from typing import Any

from lakewarden.formats.iceberg.branches.refs import branches_of
from lakewarden.model.branches import LEAST_FOR_A_BRAKE, BranchState, too_many


def snapshot(number: int, parent: int | None) -> dict[str, Any]:
    return {
        "snapshot-id": number, "parent-snapshot-id": parent, "timestamp-ms": number, "manifest-list": f"file:///l/{number}",
    }  # fmt: skip


def document(main: int, branches: dict[str, int], parents: dict[int, int | None]) -> dict[str, Any]:
    refs = {name: {"snapshot-id": number, "type": "branch"} for name, number in {"main": main, **branches}.items()}
    refs["release"] = {"snapshot-id": main, "type": "tag"}
    snapshots = [snapshot(number, parent) for number, parent in parents.items()]
    return {"current-snapshot-id": main, "refs": refs, "snapshots": snapshots}


def standings(found: dict[str, Any]) -> dict[str, str]:
    return {sight.name: str(sight.standing) for sight in branches_of("lake.t", found)}


def test_every_standing() -> None:
    """1 ← 2 ← 3 is main. A rollback of main (5 came after 3) leaves its branch diverged or ahead, never detached."""
    parents = {1: None, 2: 1, 3: 2, 10: 2, 11: 10, 20: 3, 30: 99, 31: 30, 40: None, 5: 3}
    branches = {"level": 3, "behind": 1, "work": 11, "ahead": 20, "expired": 31, "strange": 40, "undone": 5}
    assert standings(document(3, branches, parents)) == {
        "level": "healthy", "behind": "healthy", "work": "diverged", "ahead": "healthy",
        "expired": "detached", "strange": "detached", "undone": "healthy",
    }  # fmt: skip


def test_parents_in_a_circle_end() -> None:
    assert standings(document(1, {"odd": 7}, {1: None, 7: 8, 8: 7})) == {"odd": "detached"}


def test_without_main_nothing_is_detached() -> None:
    found = document(1, {"only": 7}, {7: None})
    del found["refs"]["main"], found["current-snapshot-id"]
    assert standings(found) == {"only": "diverged"}


def test_a_thousand_branches_on_a_long_history() -> None:
    """Each snapshot is walked once: a walk a branch would take a thousand times as long."""
    parents = {number: number - 1 if number > 1 else None for number in range(1, 20_001)}
    parents |= {100_000 + n: 99_999 + n if n else 1 for n in range(20_000)}
    branches = {f"b{n}": 119_999 - n for n in range(1000)}
    began = time.process_time()
    found = list(branches_of("lake.t", document(20_000, branches, parents)))
    assert time.process_time() - began < 2
    assert {sight.standing for sight in found} == {BranchState.DIVERGED}


def test_few_branches_may_all_go() -> None:
    assert too_many(LEAST_FOR_A_BRAKE, LEAST_FOR_A_BRAKE, 0.5) is None
    assert too_many(11, 22, 0.5) is None
    assert too_many(12, 22, 0.5) is not None
