"""The sections of expiry, physical deletion and partition expiry, and the policies that they spell."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lakewarden.model.errors import ConfigError
from lakewarden.model.policy import (
    AgeRule,
    DeleteMode,
    DeletionPolicy,
    ExpiryPolicy,
    Job,
    PartitionPolicy,
    PartitionStrategy,
)

TABLE = "lake.db.events"
HOUR = timedelta(hours=1)

EVERYTHING = """
[snapshot_expiry]
enabled = true
dry_run = false
retain_min = 2
retain_max = 30
retain_hours = 1.5
max_expire = 7
age_rule = "own"
keep = ["release-*"]
[physical_deletion]
enabled = true
dry_run = false
visibility_delay_hours = 36
batch_size = 2
max_concurrent_deletions = 3
rate_limit_ms = 4
delete_mode = "quarantine"
quarantine_days = 5
require_cold_copy = true
[partition_expiry]
enabled = true
dry_run = false
expiration_hours = 168
strategy = "update-time"
timestamp_formatter = "yyyyMMdd"
timestamp_pattern = "$dt"
max_partitions = 9
batch_size = 3
time_zone = "Europe/Berlin"
max_drop_share = 0.25
"""
EXPIRY = ExpiryPolicy(True, False, 2, 30, 1.5 * HOUR, 7, AgeRule.OWN, ("release-*",), None, (), 720 * HOUR)
DELETION = DeletionPolicy(True, False, 36 * HOUR, 2, 3, timedelta(milliseconds=4), DeleteMode.QUARANTINE, 5, True)
PARTITIONS = PartitionPolicy(
    True, False, 168 * HOUR, PartitionStrategy.UPDATE_TIME, "yyyyMMdd", "$dt", 9, 3, "Europe/Berlin", 0.25
)
KINDS = {
    Job.SNAPSHOT_EXPIRY: ExpiryPolicy,
    Job.PHYSICAL_DELETION: DeletionPolicy,
    Job.PARTITION_EXPIRY: PartitionPolicy,
}
DEFAULTS = {
    Job.SNAPSHOT_EXPIRY: ExpiryPolicy(
        False, True, None, None, None, None, AgeRule.SUCCESSOR, (), None, (), 720 * HOUR
    ),
    Job.PHYSICAL_DELETION: DeletionPolicy(
        False, True, 24 * HOUR, 1000, 10, timedelta(milliseconds=100), DeleteMode.REMOVE, 7, False
    ),
    Job.PARTITION_EXPIRY: PartitionPolicy(False, True, None, None, None, None, None, None, "UTC", 0.5),
}  # fmt: skip


@pytest.mark.parametrize("job", KINDS)
def test_the_policy_of_the_defaults_is_the_default_policy(load: Any, job: Job) -> None:
    assert KINDS[job].of(load().policy_for(job, TABLE, {}).values) == DEFAULTS[job]


@pytest.mark.parametrize(("job", "expected"), list(zip(KINDS, (EXPIRY, DELETION, PARTITIONS), strict=True)))
def test_the_policy_takes_over_every_value(load: Any, job: Job, expected: Any) -> None:
    values = load(EVERYTHING).policy_for(job, TABLE, {}).values
    policy: Any = KINDS[job].of(values)
    assert policy == expected
    # What a plan records is what the user wrote, under the same names.
    assert policy.as_values() == {key: values[key] for key in values if key not in ("enabled", "cron", "approval")}


def test_the_day_has_its_order(load: Any) -> None:
    settings = load()
    crons = (settings.snapshot_expiry.cron, settings.partition_expiry.cron, settings.physical_deletion.cron)
    assert crons == ("0 0 * * *", "30 0 * * *", "0 4 * * *")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[snapshot_expiry]\nretain_min = 0", "snapshot_expiry.retain_min = 0 is out of range; allowed: 1 or more"),
        (
            "[snapshot_expiry]\nretain_min = 5\nretain_max = 4",
            "snapshot_expiry has retain_max = 4 below retain_min = 5",
        ),
        ("[snapshot_expiry]\nretain_hours = -1", "snapshot_expiry.retain_hours = -1 is out of range"),
        ('[snapshot_expiry]\nretain_hours = "1 h"', "snapshot_expiry.retain_hours must be a number"),
        ('[snapshot_expiry]\nage_rule = "young"', 'allowed: "successor" or "own"'),
        ('[snapshot_expiry]\nkeep = "v1"', "snapshot_expiry.keep must be a list"),
        ("[physical_deletion]\nvisibility_hours = 3", "did you mean visibility_delay_hours?"),
        ('[partition_expiry]\nstrategy = "custom"', 'allowed: "values-time" or "update-time"'),
        ('[partition_expiry]\ntime_zone = "Mars/Olympus"', "partition_expiry.time_zone is not a time zone"),
        (
            '[partition_expiry]\ntimestamp_formatter = "QQ"',
            "partition_expiry.timestamp_formatter cannot be used: timestamp formatter 'QQ'",
        ),
        ('[partition_expiry]\ntime_zone = "../etc"', "partition_expiry.time_zone is not a time zone"),
        ('[partition_expiry]\ntime_zone = "Europe"', "partition_expiry.time_zone is not a time zone"),
        ("[partition_expiry]\nmax_partitions = 0", "partition_expiry.max_partitions = 0 is out of range"),
        ("[partition_expiry]\nmax_drop_share = 1.5", "partition_expiry.max_drop_share = 1.5 is out of range"),
        ('[partition_expiry]\ntimestamp_formatter = ""', "partition_expiry.timestamp_formatter must not be empty"),
    ],
)
def test_a_mistake_names_key_and_what_is_allowed(load: Any, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert said in caught.value.message


def test_optional_keys_take_text_from_the_environment_and_from_table_properties(load: Any) -> None:
    settings = load(LAKEWARDEN_SNAPSHOT_EXPIRY__RETAIN_MIN="3", LAKEWARDEN_SNAPSHOT_EXPIRY__KEEP='["v*"]')
    properties = {
        "lakewarden.snapshot_expiry.retain_hours": "0.5",
        "lakewarden.partition_expiry.timestamp_formatter": "[yyyy]MMdd",
        "lakewarden.partition_expiry.strategy": "values-time",
    }
    expiry = ExpiryPolicy.of(settings.policy_for(Job.SNAPSHOT_EXPIRY, TABLE, properties).values)
    assert (expiry.retain_min, expiry.retain, expiry.keep) == (3, HOUR / 2, ("v*",))
    partitions = PartitionPolicy.of(settings.policy_for(Job.PARTITION_EXPIRY, TABLE, properties).values)
    assert (partitions.timestamp_formatter, partitions.strategy) == ("[yyyy]MMdd", PartitionStrategy.VALUES_TIME)
    refusal = settings.policy_for(Job.SNAPSHOT_EXPIRY, TABLE, {"lakewarden.snapshot_expiry.retain_min": "few"}).refusal
    assert "must be a whole number" in refusal.message


def test_a_visibility_delay_below_its_floor_needs_the_tables_uuid(load: Any) -> None:
    settings = load("[physical_deletion]\nvisibility_delay_hours = 0.5")
    assert settings.physical_deletion.below_floor()
    refusal = settings.policy_for(Job.PHYSICAL_DELETION, TABLE, {}, uuid="u1").refusal
    assert refusal.code == "LW-CONF-004"
    assert "visibility_delay_hours" in refusal.hint
    assert settings.policy_for(Job.PHYSICAL_DELETION, TABLE, {}, uuid="u1", unsafe_short_grace=["u1"]).refusal is None
    assert not load("[physical_deletion]\nvisibility_delay_hours = 1").physical_deletion.below_floor()
