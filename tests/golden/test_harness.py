"""The parts of the golden suite itself: a token is as wide as what it stands for, a screen shows what a terminal would, no file is left over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import expected
from tests.golden.command import Form, on_screen
from tests.golden.lake import SHOWN_AS
from tests.golden.normal import Normal

BASE = "/tmp/mnwhnuqurgzphwhxppr"
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
RUN = "9c1185a5c5e9fc54"


def test_a_token_is_as_wide_as_what_it_stands_for() -> None:
    text = f"run={RUN} of {UUID} in file://{BASE}/x, 12.3 KiB in 4.5 s, snapshot 3051729675574597004, again {RUN}"
    shown = Normal(BASE).text(text)
    assert len(shown) == len(text)
    assert shown == (
        f"run=1111111111111111 of 22222222-2222-2222-2222-222222222222 in file://{SHOWN_AS}/x, ##.# KiB in #.# s, "
        "snapshot 3333333333333333333, again 1111111111111111"
    )


@pytest.mark.parametrize("took", ["0.4 s", "17.9 s", "12 s", "3 min"])
def test_a_slow_machine_says_the_same(took: str) -> None:
    assert Normal(BASE).text(f"✓ copy  30 of 30  {took}\n") == "✓ copy  30 of 30  #.# s\n"


def test_words_counts_and_days_stay_as_they_are() -> None:
    text = "2026-01-15T06:00:00Z  1,106 files  31.8 GiB  25%  LW-TABLE-004  part-00000-crashed.parquet"
    assert Normal(BASE).text(text) == text


def test_a_document_keeps_its_shape() -> None:
    found = Normal(BASE).value({"run_id": RUN, "bytes": 1_572_864, "files": 3, "ok": True, "id": 3051729675574597004})
    assert found == {"run_id": "1" * 16, "bytes": "1.5 MiB", "files": 3, "ok": True, "id": int("2" * 19)}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\nb\n", "a\nb\n"),
        ("bar 1/3\r\x1b[2Kbar 2/3\r\x1b[2Kdone\n", "done\n"),
        ("one\ntwo\n\x1b[1A\x1b[2K\x1b[1A\x1b[2Kleft\n", "left\n"),
        ("\x1b[1mbold\x1b[0m\x1b[?25l word\x1b[?25h\n", "bold word\n"),
        ("12345\rab\n", "ab345\n"),
    ],
)
def test_what_a_terminal_shows_in_the_end(written: str, shown: str) -> None:
    assert on_screen(written) == shown


def test_an_expected_file_is_written_compared_and_owned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "FOLDER", tmp_path)
    found = {Form.JSON: "{}\n", Form.NARROW: "a\n", Form.WIDE: "a\n", Form.PIPED: "b\n"}
    with pytest.raises(AssertionError, match="is missing; write it with"):
        expected.check("plan/done", found, update=False)
    expected.check("plan/done", found, update=True)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["done.80.txt", "done.json", "done.piped.txt"]
    expected.check("plan/done", found, update=False)
    with pytest.raises(AssertionError, match="says otherwise"):
        expected.check("plan/done", {**found, Form.NARROW: "c\n"}, update=False)
    with pytest.raises(AssertionError, match="says what"):
        expected.check("plan/done", {**found, Form.PIPED: "[stderr]\na\n"}, update=False)
    assert expected.unowned({"plan/done"}) == []
    assert len(expected.unowned({"plan/other"})) == 3
