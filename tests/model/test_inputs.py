"""What a commit says it was made from: every spelling that writers use, and nothing that only looks like one."""

from __future__ import annotations

import time

import pytest

from lakewarden.model.history import Input, inputs_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4727,4728", [("", 4727), ("", 4728)]),
        ("[4727, 4728]", [("", 4727), ("", 4728)]),
        ('["4727", "lake.db.raw@4728"]', [("", 4727), ("lake.db.raw", 4728)]),
        (" -5 ", [("", -5)]),
        ("lake.db.raw@4727,lake.db.more@4728", [("lake.db.raw", 4727), ("lake.db.more", 4728)]),
        ("lake.db.raw @ 4727", [("lake.db.raw", 4727)]),
        ("lake.db.a,b@5,6", [("lake.db.a,b", 5), ("", 6)]),
        ("lake.db.x@y@5", [("lake.db.x@y", 5)]),
        ("[1,,2]", [("", 1), ("", 2)]),
    ],
)
def test_spellings(text: str, found: list[tuple[str, int]]) -> None:
    assert list(inputs_of(text)) == [Input(*one) for one in found]


@pytest.mark.parametrize(
    "text", ["", "null", "abc123", "v1.2", "5 6", "5;6", "+5", "12345678901234567890", "9223372036854775808", "\uff15"]
)
def test_what_is_no_input(text: str) -> None:
    """The last digits of a number that is too long are not the id of a snapshot."""
    assert list(inputs_of(text)) == []


@pytest.mark.parametrize("text", ["a" * 500_000, "a," * 250_000, "@" * 500_000, " @" * 250_000, "1" * 500_000])
def test_a_long_text_ends(text: str) -> None:
    began = time.process_time()
    assert list(inputs_of(text)) == []
    assert time.process_time() - began < 2
