"""A table vanishes while released files are deleted: what it took in stays."""

from __future__ import annotations

from tests.steps.doubt.lake import DELETION
from tests.steps.doubt.suite import DoubtSuite


class TestDeletion(DoubtSuite):
    jobs = (DELETION,)
    turn = 2
