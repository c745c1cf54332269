"""Each brake, pulled by a real lake, refuses its table and nothing else."""

from __future__ import annotations

import pytest

from tests.lakes import append
from tests.plan.site import Site, plant

pytestmark = pytest.mark.spark


def test_share_and_cap_of_orphans(site: Site) -> None:
    site.settings |= {"max_orphan_share": 0.25, "max_orphans": 5}
    tables = {name: site.add(f"b.{name}", appends=8) for name in ("many", "large", "capped", "fine")}
    plant(tables["many"], *(["data/{}.parquet"] * 4), *(["metadata/{}.stats"] * 20))
    plant(tables["capped"], *(["data/{}.parquet"] * 6))
    plant(tables["fine"], *(["data/{}.parquet"] * 5))
    large = plant(tables["large"], "data/{}.parquet")[0]
    large.write_bytes(b"\0" * 5_000_000)
    site.old()
    seen = site.plan()
    assert seen.refusal("b.many") == "LW-BRAKE-004"
    assert seen.refusal("b.large") == "LW-BRAKE-004"
    assert "100% of the bytes" in seen.message("b.large")
    assert seen.refusal("b.capped") == "LW-BRAKE-005"
    assert seen.refusal("b.fine") is None
    assert seen.plan.brakes == {"orphan-share": ("lake.b.large", "lake.b.many"), "orphan-cap": ("lake.b.capped",)}
    assert seen.plan.totals()["changes"] == {"files": 5}
    assert len(seen.orphans("b.capped")) == 6, "what the brake held back is shown"


def test_a_table_that_lost_half_of_its_files_since_the_last_plan(site: Site) -> None:
    shrinking, growing = site.add("b.shrinking", appends=6), site.add("b.growing")
    site.old()
    assert site.plan().refusal("b.shrinking") is None
    append(growing, 80)
    latest = shrinking.current_snapshot()
    assert latest is not None
    path = site.base / "warehouse/b/shrinking/metadata"
    first = sorted(path.glob("00001-*.metadata.json"))[0]
    site.catalog.drop_table("b.shrinking")
    site.catalog.register_table("b.shrinking", f"file://{first}")
    seen = site.plan()
    assert seen.refusal("b.shrinking") == "LW-BRAKE-006"
    assert seen.refusal("b.growing") is None


def test_a_lake_whose_names_match_nothing(site: Site) -> None:
    """The catalog's paths lead through a link: what is listed and what is needed have different names."""
    (site.base / "warehouse/b").mkdir(parents=True)
    (site.base / "alias").symlink_to(site.base / "warehouse/b")
    table = site.add("b.aliased", location=f"file://{site.base}/alias/t", properties={})
    with table.transaction() as change:
        change.update_location(f"file://{site.base}/warehouse/b/t") if hasattr(change, "update_location") else None
    plant(table, "data/{}.parquet")
    site.old()
    seen = site.plan()
    assert seen.refusal("b.aliased") is None or seen.refusal("b.aliased", ).startswith("LW-")  # type: ignore[union-attr]
