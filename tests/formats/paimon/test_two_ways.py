"""Expiry and deletion decide alike by hashes and by the join in Spark: the plan must not depend on the size of the lake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewarden.pipeline.compare import compare as comparing
from tests.formats.paimon.histories import NAMES, Library
from tests.formats.paimon.site import EXPIRY, Site


def released(site: Site) -> dict[str, Any]:
    """What a plan says: verdicts by table, and every file it would release."""
    result = site.warden.plan(EXPIRY)
    rows = site.warden.plan_rows(result.path)
    return {
        "files": sorted((row["uri"], row["verdict"], row["kind"]) for row in rows),
        "tables": {t.identifier: (t.refusal, dict(t.changes), dict(t.verdicts)) for t in result.plan.tables},
    }


@pytest.mark.usefixtures("spark")
def test_hashes_and_the_join_release_the_same(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Site(tmp_path) as site:
        for name in NAMES:
            library.copy_of(name, site.warehouse())
        quick = released(site)
        monkeypatch.setattr(comparing, "MOST_LIVE", -1)
        joined = released(site)
    assert quick["files"]
    assert joined == quick
