"""The collector rests while plans are made, and is afterwards what it was."""

from __future__ import annotations

import gc

import pytest

from lakewarden.steps.plan.uncollected import uncollected


def test_the_collector_is_back_when_the_last_of_several_plans_is_made() -> None:
    assert gc.isenabled()
    with uncollected():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_plan_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_somebody_else_switched_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
