"""abandon and forget: asked for, recorded, told truly, and taken back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.test_run_commands import at_a_terminal


@pytest.mark.parametrize("command", [("abandon", "u1"), ("forget", "prod.orders")])
def test_without_a_terminal_they_need_yes(lakewarden: Any, warden: Any, command: tuple[str, str]) -> None:
    answer = lakewarden(*command, "--output", "json")
    assert (answer.code, answer.json["error"]["code"]) == (64, "LW-APPLY-005")
    assert "apply" not in answer.json["error"]["hint"]
    assert warden.calls == []
    assert lakewarden(command[0], "--yes").code == 64


def test_abandon_shows_what_loses_protection_and_asks(lakewarden: Any, warden: Any, monkeypatch: Any) -> None:
    asked = at_a_terminal(monkeypatch, False)
    answer = lakewarden("abandon", "u1")
    assert asked == ["Abandon table u1?"]
    assert (answer.code, warden.calls) == (64, [])
    assert "Table u1, seen as prod.a.gone, is in no configured catalog." in answer.err
    assert "s3://b/t/   2 metadata files of it" in answer.err
    assert "s3://b/u/   it had files there" in answer.err
    at_a_terminal(monkeypatch, True)
    out = lakewarden("abandon", "u1", "--config", "my.toml").out.replace("\n", " ")
    assert "To take it back: lakewarden abandon u1 --undo --config my.toml" in out
    assert [name for name, _ in warden.calls] == ["abandon"]


def test_they_record_who_and_why(lakewarden: Any, warden: Any) -> None:
    words = ("--reason", "dropped", "--operator", "ada", "--yes", "--output", "json")
    document = lakewarden("abandon", "u1", *words).json
    assert (document["abandoned"], document["reason"], document["metadata_files"]) == ("u1", "dropped", 2)
    assert lakewarden("forget", "prod.orders", *words).json == {
        "forgotten": "prod.orders",
        "places": ["s3://lake/orders/"],
        "reason": "dropped",
    }
    assert lakewarden("abandon", "u1", "--undo", *words).json == {"taken_back": "u1", "reason": "dropped"}
    assert [name for name, _ in warden.calls] == ["abandon", "forget", "take_back"]
    assert {(given["actor"].operator, given["reason"]) for _, given in warden.calls} == {("ada", "dropped")}
