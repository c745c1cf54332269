"""How much goes, in words: plan, list, fleet and question."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakewarden.cli.partition_text import drop_question, scale_of, show_partitions, show_scale, show_scales
from lakewarden.cli.plan_text import question_of, show_summary
from lakewarden.cli.screen import Screen
from lakewarden.model.actor import Actor
from lakewarden.model.errors import Refusal
from lakewarden.model.plan import Plan, TablePlan
from tests.cli.fake_warden import NOW

MIB = 2**20
BRAKED = Refusal("LW-BRAKE-009", "brake table-emptied: …", "lakewarden apply PLAN_DIR --override-brake table-emptied")


def losing(name: str, going: int, of: int, *, refusal: Refusal | None = None, column: str = "dt=") -> TablePlan:
    """A table of months with 20 rows and a MiB more in each than in the one before; the first ones go."""
    months = [f"2026-{month:02}" for month in range(1, of + 1)]
    lines = [
        {"label": f"{column}{month}", "reason": "old", "rows": 20, "bytes": place * MIB, "files": 1}
        for place, month in enumerate(months, start=1)
    ]

    def total(count: int) -> dict[str, int]:
        return {"partitions": count, "files": count, "rows": 20 * count, "bytes": sum(range(1, count + 1)) * MIB}

    detail: dict[str, Any] = {"expire": lines[:going], "keep": [], "batches": [going], "empties": going == of}
    detail |= {"table": total(of), "going": total(going), "due": total(going)}
    return TablePlan(name, name, "iceberg", "m", refusal=refusal, changes={"partitions": going}, detail=detail)


def plan_of(*tables: TablePlan, **more: Any) -> Plan:
    day = timedelta(days=1)
    return Plan("partition-expiry", NOW, NOW + day, NOW, Actor("ada", "host"), tables, (), (), **more).sealed()


def printed(show: Any, *args: Any) -> str:
    stream = io.StringIO()
    show(Screen(stream, terminal=False), *args)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (losing("t", 3, 3), "3 of 3 partitions, 60 rows, 6.0 MiB, 2026-01 to 2026-03: the table becomes EMPTY"),
        (losing("t", 1, 3), "1 of 3 partitions, 20 rows, 1.0 MiB, 2026-01; 40 rows, 5.0 MiB stay"),
        (
            losing("t", 2, 3, column="region=eu/dt="),
            "2 of 3 partitions, 40 rows, 3.0 MiB, region=eu/dt=2026-01 to region=eu/dt=2026-02; 20 rows, 3.0 MiB stay",
        ),
        (losing("t", 0, 3), None),
        # A plan of another job also says what expires.
        (TablePlan("t", "t", "iceberg", "m", detail={"expire": [{"snapshot_id": 1}]}), None),
    ],
)
def test_the_scale_of_one_table(table: TablePlan, words: str | None) -> None:
    assert scale_of(table) == words


def test_partitions_that_are_too_young_are_counted_together() -> None:
    reasons = [f"day ended 2026-11-{day:02} 00:00:00, not more than 90 days ago" for day in range(1, 21)]
    table = losing("lake.a", 1, 3)
    keep = [{"label": f"day={n}", "reason": reason} for n, reason in enumerate([*reasons, "day is null"])]
    summary = printed(show_summary, plan_of(replace(table, detail={**table.detail, "keep": keep})))
    assert [line.split(maxsplit=2) for line in summary.splitlines() if line.startswith("  kept")] == [
        ["kept", "20", "not more than 90 days ago"],
        ["kept", "1", "day is null"],
    ]


def test_the_largest_partitions_are_named_first_and_the_rest_is_counted() -> None:
    text = printed(show_scale, losing("t", 11, 12), 2)
    assert text.splitlines()[1:] == [
        "    dt=2026-11   20 rows, 11.0 MiB   old",
        "    dt=2026-10   20 rows, 10.0 MiB   old",
        "    and 9 more; lakewarden show PLAN_DIR --files lists them all",
    ]


def test_every_partition_is_listed_also_of_a_braked_table() -> None:
    plan = plan_of(losing("lake.a", 2, 3), losing("lake.b", 1, 1, refusal=BRAKED))
    assert printed(show_partitions, plan, 10).splitlines() == [
        "drop             2.0 MiB  lake.a dt=2026-02   old",
        "drop             1.0 MiB  lake.a dt=2026-01   old",
        "refused          1.0 MiB  lake.b dt=2026-01   old",
    ]
    assert printed(show_partitions, plan, 1).splitlines()[1] == "and 2 more partitions; --limit 3 lists them all"


def test_a_fleet_is_a_row_a_table_the_emptied_first() -> None:
    tables = [losing("lake.part", 1, 4), losing("lake.most", 3, 4), losing("lake.all", 2, 2), losing("lake.none", 0, 2)]
    assert printed(show_scales, tables, 50).splitlines() == [
        "table      partitions  rows     size  share",
        "lake.all       2 of 2    40  3.0 MiB   100%  EMPTY",
        "lake.most      3 of 4    60  6.0 MiB    75%",
        "lake.part      1 of 4    20  1.0 MiB    25%",
        "1 table has nothing to drop",
    ]
    assert "and 2 more tables that would lose partitions" in printed(show_scales, tables, 1)


def test_the_question_says_how_much_goes() -> None:
    one = plan_of(losing("lake.a", 3, 3))
    scale = "3 of 3 partitions, 60 rows, 6.0 MiB, 2026-01 to 2026-03: the table becomes EMPTY"
    assert question_of(one) == drop_question(one) == f"Drop {scale}. Go on?"
    two = plan_of(losing("lake.a", 3, 3), losing("lake.b", 1, 2), losing("lake.c", 0, 2))
    assert drop_question(two) == "Drop 4 of 5 partitions, 80 rows, 7.0 MiB, in 2 tables: lake.a becomes EMPTY. Go on?"
    many = plan_of(*(losing(f"lake.{n}", 1, 1) for n in range(7)))
    assert "lake.0, lake.1, lake.2, lake.3, lake.4 and 2 more become EMPTY" in drop_question(many)


def test_with_a_lifted_brake_the_question_counts_what_it_held() -> None:
    braked = plan_of(losing("lake.a", 3, 3, refusal=BRAKED), brakes={"table-emptied": ("lake.a",)})
    assert question_of(braked) == question_of(braked, ["drop-share"]) == "Drop nothing?"
    assert "3 of 3 partitions" in question_of(braked, ["table-emptied"])
    assert "the table becomes EMPTY" in question_of(braked, ["table-emptied"])


def test_the_summary_shows_what_a_brake_holds() -> None:
    table = losing("lake.a", 3, 3, refusal=BRAKED)
    summary = printed(
        show_summary, plan_of(table, replace(losing("lake.b", 1, 4)), brakes={"table-emptied": ("lake.a",)})
    )
    assert "REFUSED lake.a   LW-BRAKE-009" in summary
    assert "3 of 3 partitions, 60 rows, 6.0 MiB, 2026-01 to 2026-03: the table becomes EMPTY" in summary
    assert "1 of 4 partitions, 20 rows, 1.0 MiB, 2026-01; 60 rows, 9.0 MiB stay" in summary
    assert "BRAKE table-emptied holds lake.a" in summary
