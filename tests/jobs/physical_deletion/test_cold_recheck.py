"""A copy that the cold place loses between plan and apply keeps its file; all other files go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.model.errors import ColdCopyLostError
from lakewarden.model.policy import Job
from lakewarden.model.run import PlanResult, RunResult, RunStatus
from lakewarden.steps.apply import file_run, removal
from tests.jobs.physical_deletion.test_cold_copies import (
    CLICKS,
    ORDERS,
    Collected,
    archive,
    cold_of,
    copy,
    hand_over,
    released,
    uri_of,
)
from tests.support.lakes import age, local_path
from tests.support.worlds import World, hand_plan

__all__ = ["released"]
KINDS = ("data", "delete", "statistics")


class Night:
    """Released files of two tables, of which one needs copies and has them, and the plan that deletes them all."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.files = [local_path(uri_of(world, table, kind)) for table in (ORDERS, CLICKS) for kind in KINDS]
        for file in self.files:
            file.write_bytes(b"0123456789")
        age(self.files)
        archive(world, ORDERS, "one", 1)
        self.metadata = hand_over(world, ORDERS, 1)
        copy(world, ORDERS, *KINDS)
        # Nothing was compared in Spark, so nothing was found reachable: the brake for that is lifted here.
        self.tables = tuple(replace(table, refusal=None) for table in Collected(world, ORDERS).tables.values())

    def plan(self) -> PlanResult:
        return hand_plan(self.world, self.files, verdict="pending", job=Job.PHYSICAL_DELETION, tables=self.tables)

    def lose(self, kind: str, left: bytes | None = None) -> None:
        path = self.copy_of(kind)
        path.unlink() if left is None else path.write_bytes(left)

    def copy_of(self, kind: str) -> Path:
        return local_path(f"{cold_of(self.world, ORDERS)}copy-{kind}")

    def left(self) -> set[str]:
        return {file.name for file in self.files if file.exists()}

    def waiting(self) -> set[str]:
        deployment = self.world.warden._deployment
        names = (
            row["uri"].rsplit("/", 1)[-1]
            for page in deployment.ledger.pending.iter_tables(deployment.clock.now())
            for row in page.to_pylist()
        )
        return {name for name in names if name.rsplit("-", 1)[-1] in KINDS}


@pytest.fixture
def night(released: World) -> Night:
    return Night(released)


def held(result: RunResult) -> dict[str, str]:
    """Names of the files that lost their copy, with what is said of each."""
    assert {failed.code for failed in result.failed} <= {ColdCopyLostError.code}
    return {failed.uri.rsplit("/", 1)[-1]: failed.message for failed in result.failed}


def test_whole_copies_let_everything_go(night: Night) -> None:
    result = night.world.apply(night.plan())
    assert (result.status, result.deleted.files, night.left()) == (RunStatus.DONE, 6, set())


@pytest.mark.parametrize(("left", "said"), [(None, "is gone"), (b"short", "has 5 bytes where 10 were copied")])
def test_a_lost_copy_keeps_its_file_alone(night: Night, left: bytes | None, said: str) -> None:
    plan = night.plan()
    night.lose("data", left)
    result = night.world.apply(plan)
    assert (result.status, result.deleted.files) == (RunStatus.PARTIAL, 5)
    assert night.left() == night.waiting() == {f"{ORDERS}-data"}
    ((name, message),) = held(result).items()
    assert name == f"{ORDERS}-data"
    assert message.endswith(f"{said}; the file was not deleted")
    night.copy_of("data").write_bytes(b"0123456789")
    night.files = [file for file in night.files if file.exists()]
    assert night.world.apply(night.plan()).deleted.files == 1, "still released, and free again with its copy"


def test_a_cold_table_that_no_longer_opens_keeps_all_its_files(night: Night) -> None:
    plan = night.plan()
    local_path(night.metadata).unlink()
    result = night.world.apply(plan)
    assert night.left() == held(result).keys() == {f"{ORDERS}-{kind}" for kind in KINDS}
    assert set(held(result).values()) == {
        f"the cold table's metadata {night.metadata} is gone; the file was not deleted"
    }


def test_a_copy_lost_between_two_batches(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = night.plan()
    monkeypatch.setattr(file_run, "batches_of", _after_the_first(file_run.batches_of, lambda: night.lose("statistics")))
    result = night.world.apply(plan)
    assert night.left() == held(result).keys() == {f"{ORDERS}-statistics"}


def test_what_a_crashed_process_took_is_not_called_held(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = night.plan()

    def dies(*_: object, **__: object) -> None:
        next(file for file in night.files if file.name == f"{ORDERS}-data").unlink()
        raise SystemExit(9)

    with monkeypatch.context() as patch:
        patch.setattr(removal, "delete", dies)
        with pytest.raises(SystemExit):
            night.world.apply(plan)
    night.lose("data")
    night.lose("delete")
    result = night.world.apply(plan)
    assert night.left() == held(result).keys() == {f"{ORDERS}-delete"}
    assert (result.deleted.files, result.absent) == (5, 0)


def _after_the_first(batches: Callable[..., object], act: Callable[[], None]) -> Callable[..., object]:
    def one_by_one(result: object, rows: object, size: int, first: int) -> object:
        for batch in batches(result, rows, 1, first):  # type: ignore[attr-defined]
            yield batch
            if batch.number == 0:
                act()

    return one_by_one
