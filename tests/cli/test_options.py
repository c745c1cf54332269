"""Options that every command takes: before the command or after it, and `-h` everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from lakewarden.cli import worker
from lakewarden.cli.main import app
from lakewarden.cli.options import Form, Shared
from tests.cli.fake_warden import FakeWarden

# Types of Python's, doubled brackets, and sentences that were cut.
PROGRAMMERS_WORDS = re.compile(r"<(?:str|int|float|list)\b.*|\[\[.*|.*\w\.\.\.$", re.MULTILINE)
EVERYWHERE = ("--config", "--output", "--quiet", "--verbose", "--log-format", "--help", "-h")


def names(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield before
    for name, command in group.commands.items():
        yield from names(command, (*before, name)) if hasattr(command, "commands") else [(*before, name)]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Shared]:
    """What each worker was opened with."""
    asked: list[Shared] = []
    monkeypatch.setattr(worker, "open_worker", lambda shared: asked.append(shared) or FakeWarden())
    return asked


@pytest.mark.parametrize("words", list(names(typer.main.get_command(app))), ids=" ".join)
def test_every_command_and_group_shows_the_shared_options_after_h(lakewarden: Any, words: tuple[str, ...]) -> None:
    answer = lakewarden(*words, "-h")
    assert answer.code == 0
    assert all(option in answer.out for option in EVERYWHERE)
    assert answer.out == lakewarden(*words, "--help").out
    assert not PROGRAMMERS_WORDS.findall(answer.out)


@pytest.mark.parametrize(
    "words",
    [
        "--config F --output json --quiet --log-format json runs",
        "runs --config F --output json --quiet --log-format json",
        "--config F --quiet runs --output json --log-format json",
        "--config=wrong --output text --quiet runs --config F --output=json --log-format json",
        "--config F audit --output json --quiet verify --log-format json",
        "audit --config F verify --output json --quiet --log-format json",
        "--config wrong audit --config F --output json --quiet --log-format json verify",
    ],
)
def test_options_count_before_and_after_the_command_and_the_later_one_wins(
    lakewarden: Any, opened: list[Shared], words: str
) -> None:
    assert lakewarden(*words.split()).json
    assert opened == [Shared("F", Form.JSON, quiet=True, log_format=Form.JSON)]


def test_without_any_option_the_defaults_hold(lakewarden: Any, opened: list[Shared]) -> None:
    assert "run-1" in lakewarden("runs").out
    assert opened == [Shared()]


@pytest.mark.parametrize("words", ["--quiet", "--config x", "audit", "--output text audit --output json"])
def test_options_without_a_command_are_a_mistake(lakewarden: Any, words: str) -> None:
    answer = lakewarden(*words.split())
    assert answer.code == 64
    assert "Missing command" in (answer.json["error"]["message"] if "json" in words else answer.err)


def test_an_error_has_the_form_that_was_asked_for_last(lakewarden: Any) -> None:
    assert lakewarden("runs", "nope", "--output", "text", "--output", "json").json["error"]["code"] == "LW-CORE-010"
    assert "LW-CORE-010" in lakewarden("--output", "json", "runs", "nope", "--output", "text").err
    assert "LW-CORE-010" in lakewarden("--output=json", "runs", "nope", "--output=text").err


def test_quiet_and_verbose_contradict_each_other(lakewarden: Any, opened: list[Shared]) -> None:
    answer = lakewarden("--quiet", "runs", "--verbose")
    assert (answer.code, opened) == (64, [])
    assert "--quiet and --verbose" in answer.err


def test_quiet_leaves_the_data_and_takes_the_progress_away(lakewarden: Any) -> None:
    talking, quiet = lakewarden("plan", "orphans"), lakewarden("plan", "orphans", "--quiet")
    assert quiet.out == talking.out != ""
    assert (quiet.err, talking.err != "") == ("", True)


def test_an_error_is_a_document_where_stderr_is_read_as_documents(
    lakewarden: Any,
) -> None:
    answer = lakewarden("runs", "nope", "--log-format", "json")
    said = json.loads(answer.err)
    assert (answer.code, answer.out) == (10, "")
    assert (said["code"], said["event"], said["level"]) == ("LW-CORE-010", "there is no run nope", "error")
    assert said["hint"]
    answer = lakewarden("runs", "nope", "--log-format", "json", "--output", "json")
    assert (answer.json["error"]["message"], answer.err) == ("there is no run nope", "")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("apply", "", "--yes"), "PLAN_DIR"),
        (("show", " "), "PLAN_DIR"),
        (("diff", "a", ""), "PLAN_B"),
        (("run", "orphans", ""), "JOB"),
        (("restore", ""), "RUN"),
        (("policy", ""), "TABLE"),
        (("audit", "origin", ""), "FILE|SNAPSHOT"),
        (("abandon", "", "--yes"), "TABLE_UUID"),
        (("plan", "orphans", "--select", ""), "--select"),
        (("plan", "orphans", "--select", "a", "--exclude", ""), "--exclude"),
        (("plan", "orphans", "--out", ""), "--out"),
        (("apply", "plan", "--yes", "--ticket", ""), "--ticket"),
        (("freeze", "--operator", ""), "--operator"),
        (("leases", "--release", "", "--reason", "gone"), "--release"),
        (("--config", "", "runs"), "--config"),
        (("runs", "--config", ""), "--config"),
        (("audit", "--config", "", "verify"), "--config"),
    ],
)
def test_a_word_that_is_empty_is_named_as_the_user_wrote_it(
    lakewarden: Any, opened: list[Shared], words: tuple[str, ...], name: str
) -> None:
    """A variable that a script forgot to set is no plan, no table and no ticket."""
    answer = lakewarden(*words)
    assert (answer.code, answer.out, opened) == (64, "", [])
    assert answer.err.startswith(f"LW-CONF-002 {name} is empty; nothing was done\n")


def test_bytes_that_are_no_text_are_refused(lakewarden: Any, opened: list[Shared]) -> None:
    answer = lakewarden("plan", "orphans", "--ticket", b"OPS-\xff".decode(errors="surrogateescape"))
    assert (answer.code, opened) == (64, [])
    assert answer.err.startswith("LW-CONF-002 --ticket is not text in UTF-8; nothing was done\n")


def test_a_reason_may_be_left_out_by_saying_nothing(lakewarden: Any, warden: Any) -> None:
    assert lakewarden("freeze", "--reason", "").code == 0
