"""The lake of the golden suite, and whether its files are compared or written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import wiring
from lakewarden.jobs.snapshot_expiry import run as expiry
from lakewarden.reports import check_parts
from lakewarden.storage import clock
from tests.golden.lake import GoldenLake, own_ids


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="module")
def lake() -> Iterator[GoldenLake]:
    with pytest.MonkeyPatch.context() as patch:
        own_ids(patch)
        # One table after the other, so that what is noted of them is in one order.
        patch.setattr(expiry, "TABLES_AT_ONCE", 1)
        with GoldenLake.built() as made:
            # Commands build their own clock; here it is the lake's.
            patch.setattr(wiring, "SystemClock", lambda: made.clock)
            patch.setattr(check_parts, "skew", lambda *given: clock.skew(*given) + made.clock.passed)
            yield made
