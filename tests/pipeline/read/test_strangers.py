"""A thousand old versions of a table are one answer."""

from __future__ import annotations

from lakewarden.pipeline.read.strangers import newest


def test_only_the_highest_rank_of_each_table_is_told_and_the_rest_stays() -> None:
    found = [
        {"uuid": "a", "rank": 1},
        {"uuid": "b", "rank": 9},
        {"uuid": "a", "rank": 3},
        {"uuid": "a", "standing": "fork"},
        {"uuid": "a", "rank": 2},
    ]
    assert newest(found) == [{"uuid": "a", "standing": "fork"}, {"uuid": "a", "rank": 3}, {"uuid": "b", "rank": 9}]
    assert newest(newest(found)) == newest(found)
