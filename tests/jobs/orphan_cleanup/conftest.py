"""Plans over real tables on local disk, all in the one Spark session of the test process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.jobs.orphan_cleanup.site import Site


@pytest.fixture
def site(spark: object, tmp_path: Path) -> Iterator[Site]:
    """An empty lake and a configuration for it."""
    with Site(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def new_site(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Site]]:
    """Makes lakes that the tests of one module share: many scenes, one plan."""
    made: list[Site] = []

    def make() -> Site:
        made.append(Site(tmp_path_factory.mktemp("site")))
        return made[-1]

    yield make
    for one in made:
        one.close()
