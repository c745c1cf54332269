"""`lakewarden token`: what is made is shown once, what is listed opens nothing, what is revoked is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.cli.main import main
from lakewarden.service.service import open_service


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "lakewarden.toml"
    file.write_text(f'[state]\nlocation = "file://{tmp_path}/state"\n', "utf-8")
    return str(file)


def test_a_token_is_shown_once_and_opens_until_it_is_revoked(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", "ada", "--role", "approver", "--days", "2", "--config", config]) == 0
    said = capsys.readouterr().out
    plaintext = said.split()[0]
    assert said.splitlines()[1] == "This is the only time that the token of ada (approver) is shown."
    tokens = open_service(config).ledger.tokens
    assert tokens.check(plaintext) is not None
    assert main(["token", "list", "--config", config]) == 0
    listed = capsys.readouterr().out
    assert "ada" in listed
    assert "counts" in listed
    assert plaintext not in listed
    assert main(["token", "revoke", "ada", "--config", config]) == 0
    assert capsys.readouterr().out == "The token of ada opens nothing any more.\n"
    assert tokens.check(plaintext) is None


def test_programs_are_told_in_json(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--config", config, "--output", "json"]
    assert main(["token", "create", "ada", "--role", "viewer", "--operator", "root", *words]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["name"], made["role"]) == ("ada", "viewer")
    assert main(["token", "list", *words]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["tokens"]
    assert (listed["created_by"], listed["revoked_at"], listed["expires_at"]) == ("root", None, None)
    assert "hash" not in listed
    assert main(["token", "revoke", "ada", *words]) == 0
    assert json.loads(capsys.readouterr().out)["revoked_at"] is not None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["create", "ada"], 64, "--role"),
        (["create", "ada", "--role", "king"], 64, "approver"),
        (["create", "@schedule", "--role", "viewer"], 64, "cannot be the name of a token"),
        (["create", "ada", "--role", "viewer", "--days", "0"], 64, "--days"),
        (["revoke", "nobody"], 10, "there is no token nobody"),
    ],
)
def test_what_cannot_be_is_told(
    config: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main(["token", *words, "--config", config]) == code
    assert said in capsys.readouterr().err


def test_without_tokens_the_next_step_is_named(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "list", "--config", config]) == 0
    assert "lakewarden token create NAME --role viewer" in capsys.readouterr().out
