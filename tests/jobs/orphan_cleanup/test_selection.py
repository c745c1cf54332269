"""Which tables a selection and an exclusion mean."""

from __future__ import annotations

import pytest

from lakewarden.steps.observe.fleet import selected, selection


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


def test_what_lies_outside_is_not_selected_whatever_names_it() -> None:
    names = ["prod.acme.orders", "prod.acme.carts", "prod.umbrella.acme.orders", "lake.acme.orders"]
    inside = selection(["*.orders"], ["*.none"], ["prod.acme.*"])
    assert list(filter(inside, names)) == ["prod.acme.orders"]
    assert list(filter(selection([], [], ["prod.acme.*"]), names)) == names[:2]
