"""A plan reads back as it was written, and any edit shows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import PlanEditedError, Refusal
from lakewarden.model.plan import PartFile, Plan, PlannedRoot, TablePlan, Tally
from lakewarden.model.table import Ref

AT = datetime(2026, 3, 1, 6, tzinfo=UTC)


def made(name: str = "lake.a", files: int = 3) -> Plan:
    good = TablePlan(
        name, "u-1", "iceberg", "s3://b/m", (Ref("main", 5, "branch"),), None,
        {"live": Tally(9, 90), "orphan": Tally(files, 30)}, {"data": Tally(files, 30)}, {"files": files}, {"batch_size": 10},
    )  # fmt: skip
    bad = TablePlan("lake.b", "u-2", "iceberg", "s3://b/n", refusal=Refusal("LW-TABLE-001", "damaged", "repair it"))
    return Plan(
        "orphan-cleanup", AT, AT + timedelta(days=1), AT - timedelta(days=7), Actor("ops", "w1", Trigger.SCHEDULE, "T-1"),
        (good, bad), (PlannedRoot("s3://b/", (name, "lake.b")),), (PartFile("files/p.parquet", "ab" * 32, 12, 345),),
        {name: "s3://b/m"}, {"orphan-share": ("lake.b",)},
    ).sealed()  # fmt: skip


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for i, item in enumerate(value) for leaf in leaves(item, (*path, i))]
    return [path]


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=20), st.integers(0, 2**50))
def test_a_plan_reads_back_as_it_was_written(name: str, files: int) -> None:
    plan = made(name, files)
    assert Plan.loads(plan.dumps()) == plan


def test_an_edit_of_any_value_shows() -> None:
    document = json.loads(made().dumps())
    for path in leaves(document):
        if path[0] == "totals" or path[-1] == "status":
            continue  # Derived from the rest each time they are shown: nobody reads them.
        edited = json.loads(made().dumps())
        place: Any = edited
        for step in path[:-1]:
            place = place[step]
        value = place[path[-1]]
        place[path[-1]] = value + 1 if isinstance(value, int) else f"{value or ''}x"
        with pytest.raises(PlanEditedError):
            Plan.loads(json.dumps(edited).encode())


@pytest.mark.parametrize("edit", [lambda d: d["tables"].pop(), lambda d: d["parts"].clear(), lambda d: d.pop("roots")])
def test_taking_something_out_shows(edit: Any) -> None:
    document = json.loads(made().dumps())
    edit(document)
    with pytest.raises(PlanEditedError):
        Plan.loads(json.dumps(document).encode())


def test_lifting_a_refusal_by_hand_shows() -> None:
    document = json.loads(made().dumps())
    document["tables"][1]["refusal"] = None
    with pytest.raises(PlanEditedError):
        Plan.loads(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\xff", b'{"plan_id": ""}'])
def test_what_is_no_plan_is_not_obeyed(data: bytes) -> None:
    with pytest.raises(PlanEditedError):
        Plan.loads(data)


def test_totals_are_those_of_planned_tables() -> None:
    totals = made().totals()
    assert totals["changes"] == {"files": 3}
    assert totals["verdicts"]["live"] == {"files": 9, "bytes": 90}
