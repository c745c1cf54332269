"""Which tables a selection and an exclusion mean."""

from __future__ import annotations

import pytest

from lakewarden.steps.observe.fleet import selected


@pytest.mark.parametrize(
    ("select", "exclude", "found"),
    [
        ([], [], ["prod.db.t", "prod.db.t1", "prod.db.t[1]", "prod.db.T1"]),
        (["prod.db.t?"], [], ["prod.db.t1"]),
        # A table is also meant by its own name, whatever a glob makes of it.
        (["prod.db.t[1]"], [], ["prod.db.t1", "prod.db.t[1]"]),
        (["prod.*"], ["prod.db.t[1]"], ["prod.db.t", "prod.db.T1"]),
        ([], ["prod.db.t[[]1]"], ["prod.db.t", "prod.db.t1", "prod.db.T1"]),
    ],
)
def test_a_selection_is_a_name_or_a_glob(select: list[str], exclude: list[str], found: list[str]) -> None:
    names = ["prod.db.t", "prod.db.t1", "prod.db.t[1]", "prod.db.T1"]
    assert [name for name in names if selected(name, select, exclude)] == found
