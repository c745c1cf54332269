"""Which value is in effect for a table, and who set it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lakewarden.jobs.registry import job_named
from lakewarden.model.errors import UsageError
from lakewarden.model.policy import DeleteMode, Job, OrphanPolicy

TABLE = "prod.acme.events"
PREFIX = "lakewarden.orphan_cleanup."


def policy(settings: Any, properties: dict[str, str] | None = None, **named: Any) -> Any:
    return settings.policy_for("orphan-cleanup", TABLE, properties or {}, **named)


def override(match: str, *lines: str) -> str:
    return "\n".join([f'\n[[overrides]]\nmatch = "{match}"\n[overrides.orphan_cleanup]', *lines])


def test_each_scope_wins_over_the_wider_one_and_says_so(load: Any) -> None:
    text = "[orphan_cleanup]\nbatch_size = 1\nrate_limit_ms = 1\nconfirmations = 1\nquarantine_days = 1"
    text += override("prod.*", "rate_limit_ms = 2", "confirmations = 2", "quarantine_days = 2")
    text += override("prod.acme.*", "confirmations = 3", "quarantine_days = 3") + override("dev.*", "batch_size = 9")
    found = policy(load(text, LAKEWARDEN_ORPHAN_CLEANUP__MAX_ORPHANS="5"), {PREFIX + "quarantine_days": "4"}).provenance
    assert found["enabled"] == (False, "default")
    assert found["max_orphans"] == (5, "environment LAKEWARDEN_ORPHAN_CLEANUP__MAX_ORPHANS")
    assert found["batch_size"].value == 1
    assert found["batch_size"].source.endswith("lakewarden.toml [orphan_cleanup]")
    assert found["rate_limit_ms"].value == 2
    assert found["rate_limit_ms"].source.endswith('[[overrides]] match = "prod.*"')
    assert found["confirmations"].value == 3
    assert found["quarantine_days"] == (4, "table property lakewarden.orphan_cleanup.quarantine_days")


def test_overrides_apply_in_file_order_not_by_length(load: Any) -> None:
    text = override("prod.acme.events", "batch_size = 1") + override("prod.*", "batch_size = 2")
    assert policy(load(text)).values["batch_size"] == 2


def test_a_table_is_also_matched_by_its_own_name_whatever_a_glob_makes_of_it(load: Any) -> None:
    settings = load(override("prod.acme.t[1]", "batch_size = 7"))
    names = ("prod.acme.t[1]", "prod.acme.t1", "prod.acme.t[2]")
    found = [settings.policy_for("orphan-cleanup", name, {}) for name in names]
    default = policy(load()).values["batch_size"]
    assert [one.values["batch_size"] for one in found] == [7, 7, default]


@pytest.mark.parametrize(
    ("section", "narrow", "table", "effect"),
    [
        (None, None, None, True),
        (None, "false", None, True),
        ("true", "false", "false", True),
        ("false", None, None, False),
        ("false", None, "true", True),
        ("false", "true", "false", True),
        ("false", "false", "false", False),
    ],
)
def test_a_narrower_scope_only_makes_dry_run_stricter(
    load: Any, section: str | None, narrow: str | None, table: str | None, effect: bool
) -> None:
    text = f"[orphan_cleanup]\ndry_run = {section}" if section else ""
    text += override("*", f"dry_run = {narrow}") if narrow else ""
    found = policy(load(text), {PREFIX + "dry_run": table} if table else {})
    assert found.values["dry_run"] is effect
    assert found.refusal is None


def test_a_dry_run_that_could_not_be_lifted_is_told(load: Any) -> None:
    found = policy(load(), {PREFIX + "dry_run": "false"})
    assert found.provenance["dry_run"].source == "default"
    assert "dry_run = false" in found.warnings[0]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (PREFIX + "batch_sise", "1", "did you mean batch_size?"),
        (PREFIX + "batch_size", "many", "must be a whole number"),
        (PREFIX + "batch_size", "0", "out of range"),
        (PREFIX + "dry_run", "maybe", "must be true or false"),
        (PREFIX + "delete_mode", "bin", 'allowed: "remove" or "quarantine"'),
        (PREFIX + "inventory", "{}", "whole fleet"),
        ("lakewarden.orphan_clean.enabled", "false", "did you mean orphan_cleanup?"),
        (PREFIX.rstrip("."), "off", "is not a setting"),
    ],
)
def test_a_bad_table_property_refuses_that_table_only(load: Any, name: str, value: str, said: str) -> None:
    settings = load()
    refusal = policy(settings, {name: value}).refusal
    assert refusal.code == "LW-CONF-001"
    assert said in refusal.message
    assert name in refusal.message
    assert policy(settings, {"owner": "acme"}).refusal is None


def test_another_jobs_property_is_not_this_jobs_matter(load: Any) -> None:
    assert policy(load(), {"lakewarden.compaction.enabled": "maybe"}).refusal is None


def test_a_short_grace_needs_the_tables_uuid(load: Any) -> None:
    settings = load(override("prod.*", "grace_period_hours = 1"))
    assert policy(settings, uuid="u1").refusal.code == "LW-CONF-004"
    assert policy(settings, uuid="u1", unsafe_short_grace=["u2"]).refusal.code == "LW-CONF-004"
    assert policy(settings, uuid="", unsafe_short_grace=[""]).refusal.code == "LW-CONF-004"
    allowed = policy(settings, uuid="u1", unsafe_short_grace=["u2", "u1"])
    assert allowed.refusal is None
    assert OrphanPolicy.of(allowed.values).grace == timedelta(hours=1)


def test_a_short_grace_in_a_table_property_is_refused_too(load: Any) -> None:
    assert policy(load(), {PREFIX + "grace_period_hours": "23"}).refusal.code == "LW-CONF-004"
    assert policy(load(), {PREFIX + "grace_period_hours": "24"}).refusal is None


def test_switches_without_effect_are_warned_about_per_table(load: Any) -> None:
    found = policy(load(), {PREFIX + "revalidate_before_delete": "false"})
    assert found.refusal is None
    assert "no effect" in found.warnings[0]


def test_the_policy_of_the_defaults_is_the_default_policy(load: Any) -> None:
    hours = timedelta(hours=1)
    assert OrphanPolicy.of(policy(load()).values) == OrphanPolicy(
        False, True, 168 * hours, 1000, 10, timedelta(milliseconds=100), DeleteMode.REMOVE, 7, 2, 4 * hours, 0.25, 10**6
    )


def test_the_policy_takes_over_every_value(load: Any) -> None:
    text = """[orphan_cleanup]
enabled = true
dry_run = false
grace_period_hours = 48
batch_size = 2
max_concurrent_deletions = 3
rate_limit_ms = 4
delete_mode = "quarantine"
quarantine_days = 5
confirmations = 6
confirmation_margin_hours = 7
max_orphan_share = 0.8
max_orphans = 9
"""
    hours = timedelta(hours=1)
    expected = OrphanPolicy(
        True, False, 48 * hours, 2, 3, timedelta(milliseconds=4), DeleteMode.QUARANTINE, 5, 6, 7 * hours, 0.8, 9
    )
    assert OrphanPolicy.of(policy(load(text)).values) == expected


def test_other_jobs_have_a_policy_too(load: Any) -> None:
    found = load("[lineage_check]\nenabled = true").policy_for(Job.LINEAGE_CHECK, TABLE, {})
    wanted = {"enabled": True, "dry_run": False, "cron": "0 0 * * *", "approval": False, "since_hours": 0.0}
    assert found.values == wanted


def test_jobs_are_found_by_name_and_alias() -> None:
    assert job_named("orphans") is job_named("orphan-cleanup")
    assert job_named("orphans").name is Job.ORPHAN_CLEANUP
    with pytest.raises(UsageError, match="did you mean orphans"):
        job_named("orphan")
    with pytest.raises(UsageError):
        job_named("tidy-up")


def test_a_narrower_scope_can_only_want_to_be_asked(load: Any) -> None:
    wide = load("[orphan_cleanup]\napproval = true")
    off = wide.policy_for(Job.ORPHAN_CLEANUP, TABLE, {"lakewarden.orphan_cleanup.approval": "false"})
    assert off.values["approval"] is True
    assert any("approval = false" in warning for warning in off.warnings)
    on = load().policy_for(Job.ORPHAN_CLEANUP, TABLE, {"lakewarden.orphan_cleanup.approval": "true"})
    assert on.values["approval"] is True
