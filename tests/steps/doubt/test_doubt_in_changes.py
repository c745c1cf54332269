"""A table vanishes while others are changed: nothing is released that it may need."""

from __future__ import annotations

from tests.steps.doubt.lake import EXPIRY, HANDOFF, PARTITIONS
from tests.steps.doubt.suite import DoubtSuite


class TestChanges(DoubtSuite):
    jobs = (EXPIRY, PARTITIONS, HANDOFF)
    turn = 4
