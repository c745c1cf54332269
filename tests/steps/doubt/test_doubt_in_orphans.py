"""A table vanishes while orphans are cleaned up: its files are nobody's orphans."""

from __future__ import annotations

from tests.steps.doubt.lake import ORPHANS
from tests.steps.doubt.suite import DoubtSuite


class TestOrphans(DoubtSuite):
    jobs = (ORPHANS,)
    turn = 1
