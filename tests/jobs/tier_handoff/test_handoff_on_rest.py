"""The way back through a REST catalog: the server says where the table lies, and registers it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.model.errors import NotFoundError, RestoreError
from lakewarden.model.run import RunStatus
from tests.jobs.snapshot_expiry.expiry_site import Site, files_below, rows_at
from tests.jobs.tier_handoff.aged import age_out, hand_over, ids_of, made, shown
from tests.support.lakes import append
from tests.support.rest import Serve


@pytest.fixture
def site(serve: Serve, tmp_path: Path) -> Iterator[Site]:
    server = serve({"warehouse": f"file://{tmp_path}/warehouse"})
    site = Site(tmp_path, {"lake": {"type": "rest", "uri": server.uri}})
    site.sections["tier_handoff"] = {"dry_run": False, "destination": f"file://{tmp_path}/cold"}
    site.catalog().create_namespace("sales")
    with site:
        yield site


def test_there_and_back(site: Site) -> None:
    table = made(site.catalog(), appends=3)
    ids = ids_of(table)
    rows = shown(table, ids)
    age_out(site, table, ids[:2])
    _, result = hand_over(site)
    assert result.status is RunStatus.DONE
    for path in files_below(site.base / "warehouse"):
        if path.suffix == ".parquet":
            path.unlink()
    site.warden.restore_cold(str(ids[1]), "lake.sales.back")
    back = site.catalog().load_table("sales.back")
    assert rows_at(back) == rows[ids[1]]
    append(back, 100)
    assert len(rows_at(back)) == len(rows[ids[1]]) + 4
    with pytest.raises(RestoreError, match="already"):
        site.warden.restore_cold(str(ids[0]), "lake.sales.back")
    with pytest.raises(NotFoundError, match="namespace"):
        site.warden.restore_cold(str(ids[0]), "lake.nowhere.back")
