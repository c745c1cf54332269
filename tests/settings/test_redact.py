"""What may be shown."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from lakewarden import logs
from lakewarden.model.redaction import MASK
from lakewarden.settings import redact


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "s3.secret-access-key",
        "access_key_id",
        "token",
        "oauth2.credential",
        "accountKey",
        "SAS_TOKEN",
        "header.Authorization",
    ],
)
def test_secrets_are_masked_by_name_at_any_depth(name: str) -> None:
    assert redact({"a": [{name: "hunter2"}]}) == {"a": [{name: "***"}]}
    assert redact("hunter2", name) == "***"
    assert redact({name: {"inner": "hunter2"}}) != {name: {"inner": "hunter2"}}


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://warden:hunter2@db/x failed",
        "postgresql://warden:p@ss-hunter2@db/x",
        "https://hunter2@host/p",
        "https://h/p?X-Amz-Signature=hunter2&x=1",
        "connect host=db password=hunter2 user=x",
        "{'token': 'hunter2'}",
        "Authorization: Bearer hunter2hunter2",
    ],
)
def test_secrets_inside_text_are_masked(text: str) -> None:
    assert "hunter2" not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/a@b/c=1/key=2/f.parquet",
        "abfss://container@account.dfs.core.windows.net/t/f",
        "/data/t/00000-1.parquet",
    ],
)
def test_file_names_are_left_alone(text: str) -> None:
    assert redact(text) == text


def test_names_that_only_identify_are_left_alone() -> None:
    facts = {"key": "s3://b/t/", "lease_key": "k", "partition_key": "day", "monkey": 1, "batch_size": 5, "x": None}
    assert redact(facts) == facts


def test_logs_are_json_with_fields_bound_and_without_secrets(capsys: Any) -> None:
    logs.configure(as_json=True)
    logs.bind(run_id="r1", table="a.b").warning("opened", uri="s3://u:hunter2@h/x", token="hunter2")
    logs.bind().info("hidden")
    captured = capsys.readouterr()
    line = json.loads(captured.err)
    assert (line["event"], line["run_id"], line["table"], line["level"]) == ("opened", "r1", "a.b", "warning")
    assert "hunter2" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("verbose", "wanted", "environment", "levels", "as_json"),
    [
        (False, False, "", "we", False),
        (True, False, "", "diwe", False),
        (False, True, "", "we", True),
        (False, False, "json", "we", True),
        (True, True, "json", "diwe", True),
    ],
)
def test_level_and_form_are_what_was_asked_for(
    capsys: Any, verbose: bool, wanted: bool, environment: str, levels: str, as_json: bool
) -> None:
    logs.configure(verbose=verbose, as_json=wanted, env={"LAKEWARDEN_LOG": environment})
    log = logs.logger("test")
    for write in (log.debug, log.info, log.warning, log.error):
        write("line")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(levels)
    assert lines[0].startswith("{") is as_json


@pytest.mark.parametrize(
    "piece", ["a", "token", "a.", "a://", "access_key", "signature.", "bearer ", "&x-amz-", "lw_", "'"]
)
def test_a_long_text_of_somebody_elses_is_looked_through_at_once(piece: str) -> None:
    text = "s3://" + piece * (60_000 // len(piece)) + "=:@"
    begun = time.process_time()
    redact(text)
    assert time.process_time() - begun < 1.0, "a text that is as long as an address may be holds up every other request"


def test_a_token_of_the_service_is_masked_wherever_it_is_put() -> None:
    token = f"lw_{'0f' * 8}_{'Aa-_9' * 8}xyz"
    assert redact(f"there is no plan {token}") == f"there is no plan lw_{'0f' * 8}_{MASK}"
