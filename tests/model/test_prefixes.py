"""Which of many prefixes a name begins with: the same as by trying all of them, with a handful of comparisons."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.model.prefixes import Prefixes

NAMES = st.text("ab/", max_size=6)


@given(st.lists(NAMES, max_size=12), NAMES)
def test_as_by_trying_all_of_them(prefixes: list[str], name: str) -> None:
    expected = sorted({prefix for prefix in prefixes if name.startswith(prefix)}, key=len, reverse=True)
    assert list(Prefixes(prefixes).all_of(name)) == expected
    assert Prefixes(prefixes).of(name) == (expected[0] if expected else None)


class Counted(str):
    """A name that counts how often somebody asks what it begins with."""

    asked = 0

    def startswith(self, *given: object) -> bool:  # type: ignore[override]
        Counted.asked += 1
        return super().startswith(*given)  # type: ignore[arg-type]


def test_many_roots_cost_no_more_than_a_few() -> None:
    roots = Prefixes(f"s3://lake/db/table-{number:05}/" for number in range(50_000))
    Counted.asked = 0
    for number in range(0, 50_000, 50):
        assert roots.of(Counted(f"s3://lake/db/table-{number:05}/data/x.parquet"))
        assert roots.of(Counted(f"s3://lake/db/table-{number:05}x/data/x.parquet")) is None
    assert Counted.asked <= 2 * 1000
