"""plan, show and diff: what they ask for, print and return."""

from __future__ import annotations

import getpass
import io
from dataclasses import replace
from typing import Any

import pytest

from lakewarden.cli.plan_text import show_summary
from lakewarden.cli.screen import Screen
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import Refusal
from lakewarden.model.plan import Plan
from lakewarden.model.standing import PlanState, Standing
from tests.cli.fake_warden import NOW, REFUSAL, plan_of, table


def test_plan_hands_over_every_option(lakewarden: Any, warden: Any) -> None:
    words = "plan orphans --select a.* --select b.* --exclude c --out d --unsafe-short-grace u1 --unsafe-short-grace u2"
    lakewarden(*words.split(), "--operator", "ada", "--ticket", "T-1", "--trigger", "incident-response")
    assert warden.calls == [
        (
            "plan",
            {
                "job": "orphan-cleanup",
                "select": ("a.*", "b.*"),
                "exclude": ("c",),
                "out": "d",
                "unsafe_short_grace": ("u1", "u2"),
                "actor": Actor("ada", "host-1", Trigger.INCIDENT_RESPONSE, "T-1"),
            },
        )
    ]


def test_the_operator_is_the_os_user_unless_named(lakewarden: Any, warden: Any) -> None:
    lakewarden("plan", "orphan-cleanup")
    assert warden.calls[0][1]["actor"] == Actor(getpass.getuser(), "host-1")


def test_a_small_plan_reads_like_a_balance(lakewarden: Any) -> None:
    answer = lakewarden("plan", "orphans")
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert lines[0].startswith("PLAN orphan-cleanup plan ")
    assert "prod.a.t 1 branch, 1 tag" in lines
    assert "listed 14 files 13.0 GiB" in lines
    assert "live 10 files 10.0 GiB" in lines
    assert "kept: too new 1 file 1.0 MiB younger than 168 h" in lines
    assert "TO DELETE 3 files 3.0 GiB 21.4% of files (limit 25%)" in lines
    assert "after 11 files 10.0 GiB" in lines
    assert lines[-1] == "Nothing has been deleted. To do exactly this: lakewarden apply 'state/plans/p 1' --yes"
    assert "✓ batches  2 of 2" in answer.err
    assert answer.code == 0


def test_the_command_to_type_carries_the_configuration(lakewarden: Any) -> None:
    assert lakewarden("plan", "orphans", "--config", "my.toml").out.rstrip().endswith("--yes --config my.toml")


def test_a_value_that_is_not_allowed_is_told_without_the_librarys_words(lakewarden: Any) -> None:
    told = lakewarden("show", "p", "--verdict", "nope").err
    assert "LW-CONF-002 Invalid value for '--verdict': 'nope' is not one of 'live', 'pending'" in " ".join(told.split())


def test_a_plan_without_orphans_offers_nothing_to_apply(lakewarden: Any, warden: Any) -> None:
    warden.tables_planned = (table("prod.a.t"),)
    answer = lakewarden("plan", "orphans")
    assert "lakewarden apply" not in answer.out
    assert answer.out.rstrip().endswith("Nothing has been deleted, and this plan has nothing to delete.")


def test_refused_tables_come_first_with_the_next_step(lakewarden: Any, warden: Any) -> None:
    warden.tables_planned = (table("prod.a.t", orphans=3), table("prod.a.bad", orphans=9, refusal=REFUSAL))
    out = lakewarden("plan", "orphans").out
    assert out.index("REFUSED prod.a.bad   LW-TABLE-002") < out.index("prod.a.t  ")
    assert "next: Restore m1.avro" in out


def test_a_large_fleet_is_a_table_of_what_changes(lakewarden: Any, warden: Any) -> None:
    quiet = [table(f"prod.q.t{i}") for i in range(20)]
    warden.tables_planned = (*quiet, table("prod.a.small", orphans=1), table("prod.a.large", orphans=5))
    out = lakewarden("plan", "orphans").out
    assert out.index("prod.a.large") < out.index("prod.a.small")
    assert "prod.q.t3" not in out
    assert "20 tables have nothing to delete" in out
    assert "TOTAL  22 tables, 2 to change, 20 with nothing to do\n" in out


def test_a_large_fleet_in_the_jobs_own_words() -> None:
    """A tag that goes releases no file; its table changes all the same."""
    quiet = [table(f"prod.q.t{i}") for i in range(20)]
    tagged = replace(table("prod.a.tagged"), changes={"refs": 1})
    for job, mode, words in (
        ("snapshot-expiry", "remove", "20 tables have nothing to expire"),
        ("orphan-cleanup", "quarantine", "20 tables have nothing to move to the trash"),
    ):
        plan = replace(plan_of(*quiet, replace(tagged, policy={"delete_mode": mode})), job=job)
        show_summary(Screen(stream := io.StringIO(), terminal=False), plan)
        assert words in stream.getvalue()
        assert "\nprod.a.tagged" in stream.getvalue()


@pytest.mark.parametrize(("job", "kind"), [("lineage-check", "violations"), ("history", "rows")])
def test_a_job_that_changes_no_table_has_none_to_change(job: str, kind: str) -> None:
    found = [replace(table(f"prod.a.t{i}"), verdicts={}, changes={kind: 2}) for i in range(60)]
    plan = replace(plan_of(*found), job=job)
    show_summary(Screen(stream := io.StringIO(), terminal=False), plan)
    assert "TOTAL  60 tables, 60 with something to do\n" in stream.getvalue()
    assert "to change" not in stream.getvalue()


def test_a_table_of_released_files_does_not_call_them_listed() -> None:
    many = [replace(table(f"prod.q.t{i}", orphans=i), changes={"files": i}) for i in range(1, 8)]
    show_summary(Screen(stream := io.StringIO(), terminal=False), replace(plan_of(*many), job="physical-deletion"))
    assert "\ntable      released  needed again  kept  to delete     size\n" in stream.getvalue()
    assert "listed" not in stream.getvalue()


@pytest.mark.parametrize("many", [1, 9])
def test_a_plan_that_is_read_again_counts_in_the_same_order(many: int) -> None:
    bare = replace(table("prod.a.t"), verdicts={}, changes={"rows": 3, "months": 2})
    made = replace(plan_of(*(replace(bare, identifier=f"prod.a.t{i}") for i in range(many))), job="history").sealed()
    told = []
    for plan in (made, Plan.loads(made.dumps())):
        show_summary(Screen(stream := io.StringIO(), terminal=False), plan)
        told.append(stream.getvalue())
    assert told[0] == told[1]
    assert told[1].index("rows") < told[1].index("months")


@pytest.mark.parametrize(
    ("refused", "planned", "strict", "code"),
    [(0, 1, True, 0), (1, 1, False, 0), (1, 1, True, 4), (1, 0, False, 4), (0, 0, False, 0)],
)
def test_exit_4_when_nothing_could_be_planned(
    lakewarden: Any, warden: Any, refused: int, planned: int, strict: bool, code: int
) -> None:
    warden.tables_planned = [table(f"r{i}", refusal=REFUSAL) for i in range(refused)]
    warden.tables_planned += [table(f"p{i}") for i in range(planned)]
    assert lakewarden("plan", "orphans", *(["--strict"] if strict else [])).code == code


def test_plan_json_is_the_plan_and_its_path(lakewarden: Any) -> None:
    document = lakewarden("plan", "orphans", "--output", "json").json
    assert document["path"] == "state/plans/p 1"
    assert document["tables"][0]["verdicts"]["orphan"] == {"files": 3, "bytes": 3 * 2**30}
    assert document["totals"]["verdicts"]["orphan"]["files"] == 3


def test_show_reads_a_plan_again(lakewarden: Any, warden: Any) -> None:
    assert "TO DELETE" in lakewarden("show", "p").out
    assert [name for name, _ in warden.calls] == ["load_plan"]
    assert "files" not in lakewarden("show", "p", "--output", "json").json


HOUR = NOW.replace(minute=30)
USED = Standing(PlanState.USED, "run-1", HOUR, "done", "3 files deleted (3.0 GiB)")


@pytest.mark.parametrize(
    ("standing", "last"),
    [
        (USED, "This plan was used by run run-1, which ended 2026-11-15 06:30 UTC: done, 3 files deleted (3.0 GiB)."),
        (Standing(PlanState.EXPIRED, at=HOUR), "Nothing has been deleted by this plan, and it expired 2026-11-15 06:30 UTC."),
        (Standing(PlanState.OPEN, "r", HOUR, "running"), "Run r is at work on this plan since 2026-11-15 06:30 UTC"),
        (Standing(PlanState.FOREIGN), "This plan was not made by this deployment"),
        (Standing(PlanState.UNSEEN, why="no catalog x"), "Nothing has been deleted by this plan. This plan cannot be applied: no catalog x."),
        (Standing(PlanState.UNKNOWN, why="LW-STATE-001 away"), "Whether this plan was used is not known"),
        (Standing(PlanState.FROZEN, at=HOUR, why="ada: month end"), "Nothing has been deleted by this plan. This deployment is frozen"),
        (Standing(PlanState.REFUSED), "Nothing has been deleted by this plan: every table of it is refused or braked."),
        (Standing(PlanState.EMPTY), "Nothing has been deleted by this plan, and it has nothing to delete."),
    ],
)  # fmt: skip
def test_what_became_of_a_plan_and_no_apply_where_apply_says_no(
    lakewarden: Any, warden: Any, standing: Standing, last: str
) -> None:
    warden.stands = standing
    out = lakewarden("show", "p").out
    assert last in out.replace("\n", " ")
    assert "lakewarden apply" not in out
    assert lakewarden("show", "p", "--output", "json").json["standing"]["can_be_applied"] is False


@pytest.mark.parametrize(
    ("standing", "typed"),
    [
        (USED, "lakewarden runs run-1 --config my.toml"),
        (Standing(PlanState.OPEN, "r", HOUR, "running"), "lakewarden runs r --config my.toml"),
        (Standing(PlanState.OPEN, "r", HOUR, "stopped"), "lakewarden apply p --yes --config my.toml"),
        (Standing(PlanState.EXPIRED, at=HOUR), "lakewarden plan orphan-cleanup --config my.toml"),
        (Standing(PlanState.FROZEN, at=HOUR, why="ada"), "lakewarden unfreeze --config my.toml"),
    ],
)
def test_what_is_to_be_typed_next_carries_the_configuration(
    lakewarden: Any, warden: Any, standing: Standing, typed: str
) -> None:
    warden.stands = standing
    assert typed in lakewarden("show", "p", "--config", "my.toml").out


def test_a_stopped_run_is_gone_on_with(lakewarden: Any, warden: Any) -> None:
    warden.stands = Standing(PlanState.OPEN, "r", HOUR, "stopped")
    assert "was stopped. To go on with it: lakewarden apply p --yes" in lakewarden("show", "p").out
    warden.stands = replace(warden.stands, why="the plan expired 2026-11-15 06:00 UTC")
    out = lakewarden("show", "p").out
    assert "was stopped, and the plan expired 2026-11-15 06:00 UTC." in out
    assert "To settle what was under way and close the run: lakewarden apply p --yes" in out


def test_braked_tables_are_not_nothing_to_delete(lakewarden: Any, warden: Any) -> None:
    pulled = Refusal("LW-BRAKE-004", "too many", "Look.")
    held = [table(f"prod.b.t{i}", orphans=1, refusal=pulled) for i in range(130)]
    warden.tables_planned = (*held, table("prod.a.bad", refusal=REFUSAL), table("prod.a.quiet"))
    warden.brakes = {"orphan-share": tuple(one.identifier for one in held)}
    out = lakewarden("plan", "orphans").out
    assert "BRAKE orphan-share holds prod.b.t0, prod.b.t1, prod.b.t2, prod.b.t3, prod.b.t4 and 125 more" in out
    assert "TOTAL  132 tables, 1 with nothing to do, 130 braked, 1 refused" in out
    assert "130 tables are held by brakes (orphan-share)." in out


def test_show_lists_files_and_a_name_cannot_steer_the_terminal(lakewarden: Any, warden: Any) -> None:
    answer = lakewarden("show", "p", "--verdict", "orphan", "--limit", "5")
    assert ("plan_rows", {"verdict": "orphan", "limit": 5}) in warden.calls
    assert "\x1b" not in answer.out
    assert "[red]x\\x1b[31m.parquet" in answer.out
    rows = lakewarden("show", "p", "--files", "--output", "json").json["files"]
    assert rows[0]["uri"] == "s3://b/t/[red]x\x1b[31m.parquet"


def test_diff_names_files_on_both_sides(lakewarden: Any) -> None:
    out = lakewarden("diff", "a", "b").out.splitlines()
    assert out == ["+ s3://b/new", "- s3://b/old", "~ prod.a.t", "added=1 removed=1 changed_tables=1"]
    assert lakewarden("diff", "a", "b", "--output", "json").json["removed"] == ["s3://b/old"]


def test_the_command_that_lifts_a_brake_names_the_plan_while_it_can_be_lifted(lakewarden: Any, warden: Any) -> None:
    hint = "If it is right: lakewarden apply PLAN_DIR --yes --override-brake orphan-share"
    warden.tables_planned = (table("prod.a.t", orphans=3, refusal=Refusal("LW-BRAKE-004", "too many", hint)),)
    warden.brakes = {"orphan-share": ("prod.a.t",)}
    assert "lakewarden apply 'state/plans/p 1' --yes --override-brake" in lakewarden("plan", "orphans").out
    warden.stands = Standing(PlanState.USED, "run-1", NOW, "done", "3 files deleted")
    assert "lakewarden apply PLAN_DIR --yes --override-brake" in lakewarden("show", "p").out
