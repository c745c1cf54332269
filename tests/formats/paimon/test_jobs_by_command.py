"""The four jobs on Paimon tables as a person types them, in the order of a day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli.main import main
from tests.formats.paimon.histories import Library, age, plant
from tests.formats.paimon.reading import Ref, all_refs
from tests.formats.paimon.site import DELETION, EXPIRY, ORPHANS, PARTITIONS, Site

pytestmark = pytest.mark.usefixtures("spark")


def command(site: Site, capsys: pytest.CaptureFixture[str], *words: str, ends: int = 0) -> dict[str, Any]:
    """What a command answers in JSON; it must end with 0, unless told otherwise."""
    capsys.readouterr()
    code = main([*words, "--config", site.config(), "--output", "json"])
    told = capsys.readouterr()
    assert code == ends, told.err
    answer: dict[str, Any] = json.loads(told.out)
    return answer


def test_a_day_by_command(library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Site(tmp_path) as site:
        site.sections["partition_expiry"] = {"expiration_hours": 24}
        history = library.copy_of("partition_overwrites", site.warehouse())
        age(history)
        planted = plant(history)
        changed = {}
        for job in (PARTITIONS, EXPIRY, DELETION, ORPHANS):
            # Every partition is old: a person must say that the table may be empty.
            lifted = ("--override-brake", "table-emptied") if job == PARTITIONS else ()
            plan = command(site, capsys, "plan", job, "--select", "lake.lake.*", ends=4 if lifted else 0)
            (table,) = plan["tables"]
            assert (table["identifier"], table["status"], table["format"]) == (
                "lake.lake.partition_overwrites",
                "refused" if lifted else "planned",
                "paimon",
            )
            if lifted:
                assert table["refusal"]["code"] == "LW-BRAKE-009"
                refused = command(site, capsys, "apply", plan["path"], "--yes", ends=4)
                assert refused["error"]["code"] == "LW-APPLY-006"
            run = command(site, capsys, "apply", plan["path"], "--yes", "--operator", "nadia", *lifted)
            assert run["status"] == "done"
            changed[run["job"]] = (table["changes"], run["changed"])
        assert changed == {
            "partition-expiry": ({"partitions": 3}, {"partitions": 3}),
            "snapshot-expiry": ({"snapshots": 6}, {"snapshots": 6}),
            # They wait for readers that still look at the expired snapshots.
            "physical-deletion": ({"files": 0}, {"files": 0}),
            "orphan-cleanup": ({"files": len(planted)}, {"files": len(planted)}),
        }
        assert not any(path.exists() for path in planted)
        assert all_refs(history.location) == {Ref(snapshot=7): ()}
        assert [run["operator"] for run in command(site, capsys, "runs")["runs"]] == ["nadia"] * 4
