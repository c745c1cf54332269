"""What a user may write, and what every mistake says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakewarden import logs
from lakewarden.model.errors import ConfigError, Exit
from lakewarden.settings import load_settings

FULL = """
[worker]
id = "host-1"
[state]
location = "/var/lib/lakewarden"
database = "postgresql://warden:hunter2@db/warden"
[spark]
master = "local[2]"
[spark.conf]
spark.sql.shuffle.partitions = 4
spark.ui.enabled = false
[catalogs.prod]
format = "iceberg"
properties = { type = "rest", uri = "https://c", token = "t0ken", s3.endpoint = "http://s" }
[catalogs.stream]
format = "paimon"
[storage."s3://bucket"]
endpoint = "http://s"
secret_access_key = "hunter2"
[orphan_cleanup]
enabled = true
delete_mode = "quarantine"
inventory = { "s3://bucket/wh" = "s3://inv/listing.parquet" }
[compaction]
enabled = true
[[overrides]]
match = "prod.acme.*"
[overrides.orphan_cleanup]
grace_period_hours = 48
"""


def test_every_section_of_the_interface_is_read(load: Any) -> None:
    settings = load(FULL)
    assert settings.worker.id == "host-1"
    assert settings.state.location == "file:///var/lib/lakewarden"
    assert settings.spark.conf_strings == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}
    assert settings.catalogs["prod"].properties["s3.endpoint"] == "http://s"
    assert settings.storage["s3://bucket"]["endpoint"] == "http://s"
    assert settings.orphan_cleanup.inventory == {"s3://bucket/wh": "s3://inv/listing.parquet"}
    assert settings.compaction.enabled
    assert settings.overrides[0].orphan_cleanup.grace_period_hours == 48


def test_the_defaults_are_the_safe_ones(load: Any, tmp_path: Path) -> None:
    settings = load()
    section = settings.orphan_cleanup
    assert (section.enabled, section.dry_run, section.grace_period_hours) == (False, True, 168)
    assert (section.confirmations, section.confirmation_margin_hours, section.max_orphans) == (2, 4, 1_000_000)
    assert settings.state.location == f"file://{tmp_path}/.lakewarden"
    assert settings.state.database_url == f"sqlite:///{tmp_path}/.lakewarden/lakewarden.db"


@pytest.mark.parametrize("url", ["sqlite:////data/x.db", "postgresql://db/x"])
def test_a_database_address_is_handed_on(load: Any, url: str) -> None:
    assert load(f'[state]\ndatabase = "{url}"').state.database_url == url


def test_the_environment_wins_over_the_file_with_the_keys_types(load: Any) -> None:
    settings = load(
        "[orphan_cleanup]\nbatch_size = 10\nrate_limit_ms = 7",
        LAKEWARDEN_ORPHAN_CLEANUP__BATCH_SIZE="20",
        LAKEWARDEN_ORPHAN_CLEANUP__ENABLED="true",
        LAKEWARDEN_ORPHAN_CLEANUP__MAX_ORPHAN_SHARE="0.5",
        LAKEWARDEN_WORKER__ID="7",
        LAKEWARDEN_CATALOGS='{"a": {"format": "iceberg"}}',
        LAKEWARDEN_CATALOGS__A__PROPERTIES__PORT="8080",
        LAKEWARDEN_LOG="json",
    )
    section = settings.orphan_cleanup
    assert (section.batch_size, section.rate_limit_ms, section.enabled, section.max_orphan_share) == (20, 7, True, 0.5)
    assert settings.worker.id == "7"
    assert settings.catalogs["a"].properties == {"port": "8080"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[orphan_cleanup]\nbatch_sise = 1", "orphan_cleanup.batch_sise is not a setting; did you mean batch_size?"),
        ("[orphan_clenup]\nbatch_size = 1", "orphan_clenup is not a setting; did you mean orphan_cleanup?"),
        ('[orphan_cleanup]\nenabled = "true"', 'orphan_cleanup.enabled must be true or false, not "true"'),
        ("[orphan_cleanup]\nenabled = 1", "orphan_cleanup.enabled must be true or false, not 1"),
        ('[orphan_cleanup]\nbatch_size = "5"', "orphan_cleanup.batch_size must be a whole number"),
        ("[orphan_cleanup]\nbatch_size = 0", "orphan_cleanup.batch_size = 0 is out of range; allowed: 1 to 100000"),
        ("[orphan_cleanup]\nmax_orphan_share = 1.5", "max_orphan_share = 1.5 is out of range; allowed: 0 to 1"),
        ('[orphan_cleanup]\ndelete_mode = "bin"', 'allowed: "remove" or "quarantine"'),
        ('[orphan_cleanup]\ncron = "daily"', "orphan_cleanup.cron must have five fields"),
        ('[history]\ncron = "61 9 * * *"', "history.cron is '61 9 * * *', which is no cron line"),
        (
            '[restore_drill]\ncron = "0 0 30 2 *"',
            "restore_drill.cron is '0 0 30 2 *', which is no cron line",
        ),
        ("[compaction]\nbatch_size = 5", "compaction.batch_size is not a setting"),
        ('[catalogs.a]\nformat = "hudi"', 'catalogs.a.format is not allowed; allowed: "iceberg" or "paimon"'),
        ("[catalogs.a]\nproperties = {}", 'catalogs.a.format is missing; allowed: "iceberg", "paimon"'),
        ('[state]\nlocation = "state"', "state.location must be an absolute path"),
        ('[state]\nlocation = "s3://b/state"', "state.database must be given"),
        ('[state]\ndatabase = "mysql://x"', "state.database is not allowed; allowed:"),
        (
            "[state]\nlocation = 'hdfs://n/x'",
            "state.location is in no store that can be opened; allowed: abfs, az, file, gs, s3",
        ),
        ('[storage."s3://b"]\na = 1\n[storage."s3a://b/"]\na = 1', "are the same store"),
        ('[storage."s3://a"]\nsame_as = 1', "must name a store"),
        ('[storage."s3://a"]\nsame_as = "s3://b/wh"', "a whole store"),
        ('[storage."s3://a/wh"]\nsame_as = "s3://b"', "a whole store"),
        ('[storage."s3://a"]\nsame_as = "gs://b"', "a whole store"),
        ('[storage."s3://a"]\nsame_as = "s3a://a/"', "the same as itself"),
        ('[storage."s3://a"]\nsame_as = "s3://b"\nregion = "x"', "and other keys"),
        ('[storage."s3://a"]\nsame_as = "s3://b"\n[storage."s3://b"]\nsame_as = "s3://c"', "the same as another"),
        ('[[overrides]]\nmatch = "a.*"', "overrides[0] has a match and no section"),
        ("[[overrides]]\n[overrides.compaction]\nenabled = true", "overrides[0].match is missing"),
        ('[[overrides]]\nmatch = "a"\n[overrides.orphan_cleanup]\nenabld = true', "did you mean enabled?"),
        ('[[overrides]]\nmatch = "a"\n[overrides.orphan_cleanup.inventory]\na = "b"', "belongs to the whole fleet"),
        ("[orphan_cleanup\nx", "not valid TOML"),
    ],
)
def test_a_mistake_names_file_key_and_what_is_allowed(load: Any, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert said in caught.value.message
    assert "lakewarden.toml: " in caught.value.message
    assert caught.value.exit_code == Exit.USAGE


def test_all_mistakes_are_told_at_once(load: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load("[orphan_cleanup]\nbatch_size = 0\nenabld = true")
    assert len(caught.value.message.splitlines()) == 2


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        (
            "LAKEWARDEN_ORPHAN_CLEANUP__BATCH_SIZE",
            "LAKEWARDEN_ORPHAN_CLEANUP__BATCH_SIZE: orphan_cleanup.batch_size must",
        ),
        ("LAKEWARDEN_ORPHAN_CLEANUP_ENABLED", "did you mean LAKEWARDEN_ORPHAN_CLEANUP__ENABLED"),
        ("LAKEWARDEN_ORPHAN_CLEANP__ENABLED", "did you mean orphan_cleanup?"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(load: Any, variable: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("", **{variable: "x"})
    assert said in caught.value.message


def test_a_grace_below_a_day_for_the_fleet_is_told(load: Any) -> None:
    """Reading it must work, so that `runs` and `unfreeze` do; planning with it is what is refused."""
    assert load("[orphan_cleanup]\ngrace_period_hours = 23").orphan_cleanup.below_floor()
    assert not load("[orphan_cleanup]\ngrace_period_hours = 24").orphan_cleanup.below_floor()


@pytest.mark.parametrize("name", [None, "other.toml"])
def test_a_missing_file_says_the_least_that_is_needed(tmp_path: Path, monkeypatch: Any, name: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_settings(name, {})
    assert (name or "lakewarden.toml") in caught.value.message
    example = caught.value.hint.split("\n\n", 1)[1]
    (tmp_path / "lakewarden.toml").write_text(example)
    assert load_settings(None, {}).catalogs["prod"].format == "iceberg"


def test_a_directory_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory; nothing was done") as told:
        load_settings(str(tmp_path), {})
    assert told.value.hint == f"Name the file: --config {tmp_path}/lakewarden.toml"


def test_no_secret_is_printed_by_settings_or_by_errors(load: Any) -> None:
    assert "hunter2" in FULL
    shown = repr(load(FULL)) + str(load(FULL).state) + str(load(FULL).catalogs)
    assert "hunter2" not in shown
    assert "t0ken" not in shown
    for text in (
        '[state]\ndatabase = "mysql://u:hunter2@h/x"',
        '[catalogs.a]\nformat = "hunter2"',
        '[state]\npassword = "hunter2"',
    ):
        with pytest.raises(ConfigError) as caught:
            load(text)
        assert "hunter2" not in f"{caught.value}{caught.value.hint}"


def test_switches_that_would_weaken_safety_are_accepted_and_warned_about(load: Any, capsys: Any) -> None:
    logs.configure(as_json=True)
    load("[orphan_cleanup]\nrevalidate_before_delete = false\nmax_snapshot_age_hours = 1")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["level"] for line in lines} == {"warning"}
    assert "revalidate_before_delete" in lines[0]["setting"]
    assert "max_snapshot_age_hours" in lines[1]["setting"]
