"""Snapshot ids are texts too, beside numbers that a reader of doubles would round."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.model.big_numbers import with_texts

BIG = 3477052743548915867
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def as_javascript(document: Any) -> Any:
    return json.loads(json.dumps(document), parse_int=float)


def test_an_id_is_beside_itself_as_a_text() -> None:
    told = with_texts({"refs": [{"name": "main", "snapshot_id": BIG}], "detail": {"expire": [{"snapshot_id": 7}]}})
    assert told["refs"][0] == {"name": "main", "snapshot_id": BIG, "snapshot_id_text": str(BIG)}
    assert told["detail"]["expire"][0]["snapshot_id_text"] == "7"
    assert int(as_javascript(told)["refs"][0]["snapshot_id"]) != BIG, "a double cannot hold it"
    assert as_javascript(told)["refs"][0]["snapshot_id_text"] == str(BIG)


def test_other_names_lists_and_what_is_no_number() -> None:
    assert with_texts({"snapshot": BIG}) == {"snapshot": BIG, "snapshot_text": str(BIG)}
    assert with_texts({"ids": [1, BIG]}) == {"ids": [1, BIG], "ids_text": ["1", str(BIG)]}
    assert with_texts({"snapshot_id": None}) == {"snapshot_id": None, "snapshot_id_text": None}
    assert with_texts({"bytes": 2**53, "ok": True}) == {"bytes": 2**53, "ok": True}


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(DOCUMENTS)
def test_nothing_that_was_there_is_changed(document: Any) -> None:
    def agrees(old: Any, new: Any) -> bool:
        if isinstance(old, dict):
            return all(name in new and agrees(item, new[name]) for name, item in old.items())
        if isinstance(old, list):
            return len(old) == len(new) and all(map(agrees, old, new))
        return bool(old == new)

    assert agrees(document, with_texts(document))
