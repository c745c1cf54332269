"""Expiry beside Paimon's own Java: the same snapshots and changelogs go, and where not, ours keeps more."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.formats.paimon.expiry.retention import expirable, expirable_changelogs
from lakewarden.formats.paimon.metadata.read import read_table
from lakewarden.formats.paimon.metadata.table import Branch
from lakewarden.model.policy import AgeRule
from lakewarden.storage.stores import Stores
from tests.formats.paimon import java
from tests.formats.paimon.histories import Library, backdate
from tests.support.policies import expiry_policy


def main_of(location: Path) -> Branch:
    return read_table(f"file://{location}/", Stores()).main


def ids(branch: Branch) -> set[int]:
    return {snapshot.id for snapshot in branch.snapshots}


@pytest.mark.parametrize("name", ["key_upgrades", "key_appends", "decoupled_changelog", "branch_from_tag"])
@pytest.mark.parametrize(
    ("retain_min", "retain_max", "hours", "most"),
    [(1, 100, 0, 100), (2, 3, 900, 100), (1, 100, 0, 2), (1, 100, 900, 9)],
)
def test_the_same_snapshots_go(
    library: Library, tmp_path: Path, name: str, retain_min: int, retain_max: int, hours: int, most: int
) -> None:
    """Java 1.4 goes by a snapshot's own age."""
    history = library.copy_of(name, tmp_path)
    backdate(history, 24)
    before = main_of(history.location)
    policy = expiry_policy(
        retain_min=retain_min,
        retain_max=retain_max,
        retain=timedelta(hours=hours),
        max_expire=most,
        age_rule=AgeRule.OWN,
    )
    found = expirable(before, policy, datetime.now(UTC))
    assert found.refusal is None
    count = java.expire(
        history.location,
        retain_min=retain_min,
        retain_max=retain_max,
        time_retained_ms=hours * 3_600_000,
        max_deletes=most,
    )
    assert count == len(found.expired)
    assert ids(before) - ids(main_of(history.location)) == set(found.expired)


def test_the_same_changelogs_go(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("decoupled_changelog", tmp_path)
    backdate(history, 24)
    options = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "2",
        "changelog.num-retained.min": "2",
        "changelog.num-retained.max": "4",
        "changelog.time-retained": "1 h",
    }
    before = main_of(history.location)
    chosen = replace(before, schema=replace(before.schema, options={**before.schema.options, **options}))
    found = expirable_changelogs(chosen, expiry_policy(), datetime.now(UTC))
    assert found.expired
    java.expire_changelogs(history.location, options)
    left = {changelog.id for changelog in main_of(history.location).changelogs}
    assert {changelog.id for changelog in before.changelogs} - left == set(found.expired)
