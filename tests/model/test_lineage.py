"""What a table requires its commits to say, and what a commit lacks."""

from __future__ import annotations

import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.model.errors import LineageError
from lakewarden.model.lineage import ALLOWED, ICEBERG, REQUIRED, Requirements, validate_lineage, violations

WHO = {"writer.id": "ingest", "trigger.type": "schedule", "operation": "append"}


def test_every_required_key_must_be_there_and_say_something() -> None:
    wanted = Requirements(required=("writer.id", "writer.commit_hash"))
    assert violations(WHO, wanted) == ["writer.commit_hash is missing"]
    assert violations({**WHO, "writer.commit_hash": " "}, wanted) == ["writer.commit_hash is missing"]
    assert violations({**WHO, "writer.commit_hash": "a1b2"}, wanted) == []


def test_an_operation_may_require_more_and_another_may_not_be_allowed() -> None:
    wanted = Requirements(
        required=("writer.id",),
        by_operation={"overwrite": ("trigger.operator", "trigger.ticket")},
        allowed=("append", "overwrite"),
    )
    assert violations(WHO, wanted) == []
    assert violations({**WHO, "operation": "overwrite", "trigger.operator": "ana"}, wanted) == [
        "trigger.ticket is missing"
    ]
    assert violations({**WHO, "operation": "delete"}, wanted) == [
        "operation delete is not allowed (allowed: append, overwrite)"
    ]
    assert violations({"writer.id": "a"}, wanted)[0].startswith("operation unknown is not allowed")


@pytest.mark.parametrize(
    ("trigger", "lacks"),
    [
        ("manual", ["trigger.operator is missing"]),
        ("incident-response", ["trigger.ticket is missing"]),
        ("schedule", []),
    ],
)
def test_a_hand_has_a_name_and_an_incident_a_ticket(trigger: str, lacks: list[str]) -> None:
    summary = {**WHO, "trigger.type": trigger}
    assert violations(summary, Requirements(required=("writer.id",))) == lacks
    assert violations(summary, Requirements()) == [], "a table that requires nothing takes every commit"


def test_a_table_says_more_or_less_than_the_fleet() -> None:
    fleet = Requirements(("writer.id",), {"overwrite": ("trigger.ticket",)}, ("append",))
    assert fleet.under({}) == fleet
    own = fleet.under({REQUIRED: "writer.host, writer.id ,", f"{REQUIRED}.overwrite": "", f"{REQUIRED}.delete": "a"})
    assert own == Requirements(("writer.host", "writer.id"), {"delete": ("a",)}, ("append",))
    assert not fleet.under({REQUIRED: "", f"{REQUIRED}.overwrite": "", ALLOWED: ""}).anything


def test_the_error_names_everything_at_once() -> None:
    with pytest.raises(LineageError, match=r"a is missing; b is missing; nothing was committed"):
        validate_lineage(WHO, Requirements(required=("a", "b", "a")))


@given(st.dictionaries(st.sampled_from("abcd"), st.text(max_size=3)), st.lists(st.sampled_from("abcd")))
def test_what_is_missing_is_what_is_required_and_not_said(summary: dict[str, str], wanted: list[str]) -> None:
    found = violations(summary, Requirements(required=tuple(wanted)))
    assert {line.removesuffix(" is missing") for line in found} == {
        key for key in wanted if not summary.get(key, "").strip()
    }
    assert len(found) == len(set(found))


def test_it_costs_microseconds() -> None:
    """A commit takes some hundred milliseconds; a tenth of one is a wide bound on any machine."""
    wanted = Requirements(("writer.id", "writer.host"), {"append": ("trigger.type",)}, ("append",))
    summary = {**WHO, "writer.host": "h"}
    assert min(timeit.repeat(lambda: validate_lineage(summary, wanted), number=100, repeat=5)) / 100 < 1e-4


@pytest.mark.parametrize("word", ["OVERWRITE", " overwrite ", "", "correction"])
def test_no_spelling_of_an_operation_is_a_way_around_its_rules(word: str) -> None:
    """Iceberg's Java takes a snapshot without an operation for an overwrite, and any word for one."""
    wanted = Requirements(by_operation={"Overwrite": ("trigger.ticket",)})
    assert violations({**WHO, "operation": word}, wanted) == ["trigger.ticket is missing"]
    assert violations({**WHO, "operation": "append"}, wanted) == []
    assert violations({**WHO, "operation": "compact"}, wanted) == [], "a word of Paimon's"
    assert violations({**WHO, "operation": "Append"}, Requirements(allowed=("append",))) == []


def test_no_spelling_of_a_trigger_is_a_way_around_its_rules() -> None:
    assert violations({**WHO, "trigger.type": " Manual"}, Requirements(required=("writer.id",))) == [
        "trigger.operator is missing"
    ]


@pytest.mark.parametrize("word", ["compact", "analyze"])
def test_a_word_of_another_format_is_no_way_around_the_rules(word: str) -> None:
    """To Iceberg they are any other word, which Java's readers take for an overwrite."""
    wanted = Requirements(by_operation={"overwrite": ("trigger.ticket",)})
    assert violations({**WHO, "operation": word}, wanted, ICEBERG) == ["trigger.ticket is missing"]


def test_two_spellings_of_an_operation_require_what_either_does() -> None:
    own = Requirements().under({f"{REQUIRED}.overwrite": "trigger.ticket", f"{REQUIRED}.Overwrite": "trigger.operator"})
    overwrite = {**WHO, "operation": "overwrite"}
    assert violations(overwrite, own) == ["trigger.ticket is missing", "trigger.operator is missing"]
    fleet = Requirements(by_operation={"overwrite": ("trigger.ticket",)})
    assert not fleet.under({f"{REQUIRED}.OVERWRITE": ""}).anything, "the table's word counts, however it is spelt"
