"""What the forecast says would be released is what a real plan with that retention releases, for both formats."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lakewarden.cli.main import main
from lakewarden.model.forecast import RETENTIONS, Forecast, Source, TableForecast
from lakewarden.model.plan import Tally
from tests.formats.paimon.histories import History, build
from tests.formats.paimon.site import Site as PaimonSite
from tests.jobs.snapshot_expiry.expiry_pen import BY_PART, SCHEMA, arrow
from tests.jobs.snapshot_expiry.expiry_site import EXPIRY, HOUR_MS, Site, backdate, files_below
from tests.support.deployments import Deployed
from tests.support.lakes import local_path

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.filterwarnings("ignore:Delete operation did not match")]

DAY_MS = 24 * HOUR_MS
APPEND_ONLY, REWRITTEN, REFERRED = "lake.db.grown", "lake.db.rewritten", "lake.db.referred"


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Tables with a snapshot every three days: one that only grows, one that is replaced each time, one with refs."""
    with Site.on_sqlite(tmp_path_factory.mktemp("forecast")) as site:
        catalog = site.catalog()
        catalog.create_namespace("db")
        for name in (APPEND_ONLY, REWRITTEN, REFERRED):
            table = catalog.create_table(name.removeprefix("lake."), SCHEMA, partition_spec=BY_PART)
            for first in range(0, 60, 10):
                table.append(arrow(first)) if name == APPEND_ONLY else table.overwrite(arrow(first))
            ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
            if name == REFERRED:
                table.manage_snapshots().create_tag(ids[1], "kept").commit()
                table.manage_snapshots().create_branch(ids[3], "side", min_snapshots_to_keep=2).commit()
            backdate(catalog.load_table(name.removeprefix("lake.")), _now_ms(site), apart_ms=3 * DAY_MS)
        yield site


@pytest.fixture(scope="module")
def paimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaimonSite]:
    """Two tables of overwritten partitions, with a snapshot a day."""
    with PaimonSite(tmp_path_factory.mktemp("forecast")) as site:
        site.sections["snapshot_expiry"] = {"retain_min": 1}
        for name in ("partition_overwrites", "key_postponed"):
            _a_day_apart(build(name, site.warehouse()), _now_ms(site))
        yield site


def _now_ms(site: Deployed) -> int:
    return int(site.clock.now().timestamp() * 1000)


def _a_day_apart(history: History, now_ms: int) -> None:
    paths = sorted(history.location.glob("snapshot/snapshot-*"), key=lambda path: int(path.name.split("-")[1]))
    for age, path in enumerate(reversed(paths)):
        document = json.loads(path.read_text())
        document["timeMillis"] = now_ms - age * DAY_MS - HOUR_MS
        path.write_text(json.dumps(document))


def planned(site: Deployed, days: int) -> Mapping[str, tuple[int, Tally]]:
    """The snapshots and files of a real plan with that retention, by table."""
    before = dict(site.sections["snapshot_expiry"])
    site.sections["snapshot_expiry"] = {**before, "retain_hours": 24 * days, "max_expire": 1000}
    site.close()
    try:
        plan = site.plan(EXPIRY).plan
    finally:
        site.sections["snapshot_expiry"] = before
        site.close()
    assert [table.refusal for table in plan.tables] == [None] * len(plan.tables)
    return {table.identifier: (table.changes["snapshots"], table.verdicts["pending"]) for table in plan.tables}


def told(found: Forecast, days: int) -> Mapping[str, tuple[int, Tally]]:
    place = found.retentions.index(days)
    return {table.identifier: (table.releases[place].snapshots, table.releases[place].tally) for table in found.tables}


def one(found: Forecast, name: str) -> TableForecast:
    return next(table for table in found.tables if table.identifier == name)


def test_iceberg_releases_are_those_of_real_plans(iceberg: Site) -> None:
    before = files_below(iceberg.base / "warehouse")
    found = iceberg.warden.forecast(select="*")
    assert iceberg.warden._deployment.ledger.plans.list() == []
    for days in (1, 7, 14):
        assert told(found, days) == planned(iceberg, days), days
    assert files_below(iceberg.base / "warehouse") == before
    assert iceberg.pending() == set()
    assert [release.snapshots for release in one(found, APPEND_ONLY).releases] == [5, 5, 4, 1, 0, 0]
    # Each overwrite is a deletion and an append; what only grows releases metadata alone.
    assert one(found, REWRITTEN).releases[0].tally.bytes > one(found, APPEND_ONLY).releases[0].tally.bytes
    assert 0 < one(found, REFERRED).releases[0].snapshots < one(found, REWRITTEN).releases[0].snapshots
    for table in found.tables:
        sizes = [release.tally.bytes for release in table.releases]
        assert sizes == sorted(sizes, reverse=True)


def test_paimon_releases_are_those_of_real_plans(paimon: PaimonSite) -> None:
    found = paimon.warden.forecast(select="*")
    for days in (1, 3):
        assert told(found, days) == planned(paimon, days), days
    assert any(release.tally.files for table in found.tables for release in table.releases)


def test_what_is_named_now_is_what_lies_there(iceberg: Site) -> None:
    found = one(iceberg.warden.forecast(select=APPEND_ONLY), APPEND_ONLY)
    location = local_path(iceberg.catalog().load_table("db.grown").location())
    data = [path.stat().st_size for path in (location / "data").rglob("*.parquet")]
    assert (found.data, found.small) == (Tally(len(data), sum(data)),) * 2
    assert found.now.files > found.data.files
    assert found.growth is not None
    assert (found.growth.source, found.growth.bytes) == (Source.SNAPSHOTS, sum(data))


def test_paimon_grows_by_the_files_that_were_written(paimon: PaimonSite) -> None:
    growth = one(paimon.warden.forecast(select="*"), "lake.lake.partition_overwrites").growth
    assert growth is not None
    assert (growth.source, growth.days) == (Source.FILES, 30.0)


def test_a_selection_narrows_what_is_told(iceberg: Site) -> None:
    assert [table.identifier for table in iceberg.warden.forecast(select=[REWRITTEN]).tables] == [REWRITTEN]


def test_the_command_in_words_and_json(iceberg: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "--select", "lake.*", "--config", iceberg.config(), "--output", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["retentions"] == list(RETENTIONS)
    assert [release["days"] for release in answer["totals"]["releases"]] == list(RETENTIONS)
    assert main(["forecast", REWRITTEN, "--config", iceberg.config()]) == 0
    text = capsys.readouterr().out
    assert "nothing was changed" in text
    assert [line.split()[0] for line in text.splitlines() if line.endswith("%")] == [str(d) for d in RETENTIONS]


def test_a_damaged_table_is_refused_and_the_others_are_told(tmp_path: Path) -> None:
    with Site.on_sqlite(tmp_path) as site:
        catalog = site.catalog()
        catalog.create_namespace("db")
        for name in ("db.good", "db.bad"):
            table = catalog.create_table(name, SCHEMA)
            table.overwrite(arrow(0))
            table.overwrite(arrow(10))
            backdate(catalog.load_table(name), _now_ms(site), apart_ms=3 * DAY_MS)
        manifest = catalog.load_table("db.bad").current_snapshot().manifests(catalog.load_table("db.bad").io)[0]
        path = local_path(manifest.manifest_path)
        path.write_bytes(path.read_bytes()[:-10])
        found = site.warden.forecast(select="*")
        bad = one(found, "lake.db.bad").refusal
        assert bad is not None
        assert bad.code.startswith("LW-TABLE")
        assert one(found, "lake.db.good").releases[0].tally.files > 0
        assert found.as_json()["totals"]["refused"] == 1


def test_the_report_page_has_the_curve_and_the_same_figures(iceberg: Site, tmp_path: Path) -> None:
    written = iceberg.warden.report(str(tmp_path / "report.html"), select="lake.db.*")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert written.tables == 3
    assert '<polyline class="line"' in text
    found = iceberg.warden.forecast(select="lake.db.*")
    for release in found.releases:
        assert f'<td class="n">{release.tally.files:,}</td>' in text
    assert "could not be made" not in text
