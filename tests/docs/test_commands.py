"""Every command and option has its entry, every command line in the docs parses, every JSON shape is the real one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from lakewarden.cli.main import app
from lakewarden.jobs.registry import JOBS, job_named
from lakewarden.model.actor import Actor
from lakewarden.model.big_numbers import with_texts
from lakewarden.model.errors import Refusal
from lakewarden.model.night import JobOutcome, JobStatus, NightResult
from lakewarden.model.plan import PartFile, Plan, PlannedRoot, TablePlan, Tally
from lakewarden.model.run import FailedFile, PlanDiff, PlanResult, RefusedTable, RunResult, RunStatus
from lakewarden.model.standing import PlanState, unused
from lakewarden.model.table import Ref
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, code_in, name_of, prose, rows, sections, text_of

PAGE = DOCS / "commands.md"
GROUP: Any = typer.main.get_command(app)
EVERYWHERE, RECORD = "[everywhere](#everywhere)", "[for the record](#for-the-record)"


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


COMMANDS = dict(commands(GROUP))


def options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")} - {"--help"}


def documented(section: str) -> set[str]:
    return {code_in(cells[0]).split()[0] for cells in rows(sections(PAGE)[section], "option")}


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert set(sections(PAGE)) == {*COMMANDS, "Everywhere", "For the record", "Exit codes"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_its_entry(name: str) -> None:
    said = documented(name)
    text = sections(PAGE)[name]
    shared = (documented("Everywhere") if EVERYWHERE in text else set()) | (
        documented("For the record") if RECORD in text else set()
    )
    assert said | shared == options(COMMANDS[name])
    assert not said & shared


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    lines = [line for block in blocks(PAGE, "console") for line in block.text.splitlines()]
    assert any(line.startswith(f"$ lakewarden {name}") for line in lines)


def command_lines() -> Iterator[tuple[str, str]]:
    """Every `lakewarden …` line in a fenced block, and every one in backticks that is more than a command's name."""
    for page in PAGES:
        for block in blocks(page):
            for line in block.text.splitlines():
                found = re.search(r"(?:^|&& )(?:\$ )?(?:[\w./]*/bin/)?lakewarden ([a-z-].*?)(?: >>.*| +#.*)?$", line)
                if found:
                    yield name_of(page), found[1]
        for found in re.finditer(r"`(?:\.venv/bin/)?lakewarden ([a-z-][^`]*)`", prose(page)):
            if found[1] not in COMMANDS:
                yield name_of(page), found[1]


LINES = sorted(set(command_lines()))


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line}" for page, line in LINES])
def test_every_command_line_parses(page: str, line: str) -> None:
    words = shlex.split(line)
    parse(words)
    if words[0] in ("plan", "run"):
        # The parser takes any word for a job; the worker knows which there are.
        job = next(word for word in words[1:] if not word.startswith("-"))
        assert job in ("JOB", "all") or job_named(job)


def shell_lines() -> Iterator[tuple[str, str]]:
    """Every line that a reader is asked to type."""
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    yield name_of(page), line.removeprefix("$ ")


@pytest.mark.parametrize(("page", "line"), sorted(set(shell_lines())))
def test_every_target_and_module_in_a_line_exists(page: str, line: str) -> None:
    targets = re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        assert words[1] in targets
    if "-m" in words and words[words.index("-m") + 1].split(".")[0] == "lakewarden":
        assert find_spec(words[words.index("-m") + 1])


@pytest.mark.parametrize("page", [PAGE, DOCS / "design" / "0026-one-night.md"], ids=name_of)
def test_the_order_of_a_day_is_told_as_it_is(page: Path) -> None:
    found = re.search(r"(?:order of a day \(|order is that of the day: )([a-z, -]+)", text_of(page))
    assert found is not None
    assert found[1].split(", ") == list(JOBS)


def test_a_wrong_command_line_does_not_parse() -> None:
    for line in ("plan", "plan orphans --nope", "abandon", "nope", "apply plan --override-brake nope"):
        with pytest.raises(TyperException):
            parse(shlex.split(line))


def parse(words: list[str]) -> None:
    """Parse as the program would, without running anything. Raises what a wrong line raises."""
    try:
        context = GROUP.make_context("lakewarden", list(words))
        group = GROUP
        rest = [*context._protected_args, *context.args]
        while hasattr(group, "commands") and rest:
            name, group, rest = group.resolve_command(context, rest)
            context = group.make_context(name, rest, parent=context)
            rest = [*getattr(context, "_protected_args", ()), *context.args]
    except typer.Exit:
        return  # --help and --version end here


def shape(value: Any) -> Any:
    """The keys of a document, at every depth; lists by their first item. Maps by name count as one."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def json_of(name: str) -> Any:
    found = re.search(rf"<!-- json: {name} -->\n```json\n(.*?)^```$", text_of(PAGE), re.DOTALL | re.MULTILINE)
    assert found is not None
    return json.loads(found[1])


def test_json_of_a_plan() -> None:
    said = json_of("plan")
    real = with_texts(a_plan().as_json()) | {"standing": unused(a_plan().plan).as_json()}
    assert list(said["standing"]) == list(real["standing"])
    assert all(f"`{state}`" in sections(PAGE)["show"] for state in PlanState)
    assert list(said) == ["plan_id", "path", *(key for key in real if key not in ("plan_id", "path"))]
    for part in ("actor", "refs", "roots", "parts"):
        one, other = (said["tables"][0], real["tables"][0]) if part == "refs" else (said, real)
        assert shape(one[part]) == shape(other[part]), part
    assert list(said["tables"][0]) == list(real["tables"][0])
    assert list(said["totals"]) == list(real["totals"])


def test_json_of_a_night() -> None:
    refused = (RefusedTable("t", "c", "m", "h"),)
    run = RunResult("r", "p", "snapshot-expiry", RunStatus.DONE, {"snapshots": 1})
    real = NightResult("n", (JobOutcome("snapshot-expiry", JobStatus.DONE, result=run, refused=refused),)).as_json()
    said = json_of("night")
    assert list(said) == list(real)
    assert list(said["jobs"][0]) == list(real["jobs"][0])
    assert shape(said["totals"]) == shape(real["totals"])
    assert shape(said["jobs"][0]["refused"]) == shape(real["jobs"][0]["refused"])


def test_json_of_a_run_and_a_diff() -> None:
    run = RunResult("r", "p", "orphan-cleanup", RunStatus.DONE, {"files": 1}, failed=(FailedFile("u", "c", "m"),))
    said, real = json_of("run"), run.as_json()
    assert list(said) == list(real)
    for part in ("deleted", "quarantined", "failed"):
        assert shape(said[part]) == shape(real[part]), part
    statuses = re.search(r"`status` is (.*)\. `kept`", text_of(PAGE))
    assert statuses is not None
    assert set(re.findall(r"`(\w+)`", statuses[1])) == set(RunStatus)
    assert list(json_of("diff")) == list(PlanDiff([], []).as_json())


def a_plan() -> PlanResult:
    now = datetime(2026, 11, 15, tzinfo=UTC)
    table = TablePlan(
        "c.n.t",
        "uuid",
        "iceberg",
        "file:///m",
        (Ref("main", 1, "branch"),),
        None,
        {"orphan": Tally(1, 2)},
        {},
        {"files": 1},
    )
    plan = Plan(
        job="orphan-cleanup",
        created_at=now,
        expires_at=now,
        cutoff=now,
        actor=Actor("ana", "host"),
        tables=(table, TablePlan("c.n.u", "uuid", "iceberg", "file:///m", refusal=Refusal("LW-TABLE-002", "m", "h"))),
        roots=(PlannedRoot("file:///r/", ("c.n.t",)),),
        parts=(PartFile("files/p", "0", 1, 1),),
    )
    return PlanResult(plan.sealed(), "file:///plan/")
