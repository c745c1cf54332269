"""A forecast's sums, and what a table grows a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.model.errors import Refusal
from lakewarden.model.forecast import Forecast, Growth, Release, Source, TableForecast, growth_of
from lakewarden.model.plan import Tally
from lakewarden.model.table import Commit

NOW = datetime(2026, 11, 18, tzinfo=UTC)
DAY_MS = 86_400_000
NOW_MS = int(NOW.timestamp() * 1000)


def commit(days_ago: float, added: int | None) -> Commit:
    return Commit(NOW_MS - int(days_ago * DAY_MS), added)


def one(name: str, *tallies: tuple[int, int], growth: Growth | None = None) -> TableForecast:
    releases = tuple(Release(days, n, tally=Tally(n, size)) for days, (n, size) in zip((1, 7), tallies, strict=True))
    return TableForecast(name, "iceberg", snapshots=3, now=Tally(10, 1000), releases=releases, growth=growth)


def test_tables_are_added_up_by_retention_and_refused_ones_left_out() -> None:
    refused = TableForecast("c", "paimon", Refusal("LW-TABLE-002", "cut", "restore"))
    found = Forecast(NOW, (1, 7), (one("a", (3, 30), (1, 10)), one("b", (2, 5), (0, 0)), refused))
    assert [(r.days, r.snapshots, r.tally) for r in found.releases] == [(1, 5, Tally(5, 35)), (7, 1, Tally(1, 10))]
    told = found.as_json()
    assert told["totals"]["refused"] == 1
    assert told["totals"]["now"] == {"files": 20, "bytes": 2000}
    assert told["tables"][2]["refusal"]["code"] == "LW-TABLE-002"


def test_growth_by_commits_counts_the_window_and_divides_by_it() -> None:
    found = growth_of([commit(40, 999), commit(10, 300), commit(1, 300)], NOW, Tally(9, 9))
    assert found == Growth(600, 30.0, Source.SNAPSHOTS)
    assert found.a_day == 20


def test_a_short_history_is_divided_by_its_own_days() -> None:
    found = growth_of([commit(5, 100), commit(2, 100)], NOW, None)
    assert found is not None
    assert (found.bytes, round(found.days, 3)) == (200, 5.0)
    young = growth_of([commit(0.01, 70)], NOW, None)
    assert young is not None
    assert young.a_day == 70


def test_where_a_commit_does_not_say_the_files_do() -> None:
    assert growth_of([commit(3, None), commit(2, 5)], NOW, Tally(2, 60)) == Growth(60, 30.0, Source.FILES)
    assert growth_of([], NOW, Tally(2, 60)) == Growth(60, 30.0, Source.FILES)
    assert growth_of([], NOW, None) is None


def test_of_how_many_tables_the_growth_is_unknown() -> None:
    known = one("a", (0, 0), (0, 0), growth=Growth(60, 30.0, Source.FILES))
    found = Forecast(NOW, (1, 7), (known, one("b", (0, 0), (0, 0))))
    assert (found.growth_a_day, found.growth_unknown) == (2.0, 1)
    assert found.as_json()["totals"]["growth"] == {"bytes_per_day": 2, "unknown_tables": 1, "sources": ["files"]}
    nothing = Forecast(NOW + timedelta(days=1), (1, 7), (one("b", (0, 0), (0, 0)),))
    assert nothing.as_json()["totals"]["growth"]["bytes_per_day"] is None
