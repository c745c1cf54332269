"""Every kind of stop, for this job as for every other (tests/steps/apply/test_endings.py): what is broken cannot lie in the same lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.jobs.stale_branches.branchy import JOB, branch, break_branch, make_table, site_of
from tests.steps.apply import test_endings as endings
from tests.steps.apply.test_endings import STOPS, TABLES, Lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with site_of(tmp_path_factory.mktemp("branch-endings")) as site:
        for name in TABLES:
            table = make_table(site.catalog(), name)
            for lost in ("lost", "gone"):
                branch(table, lost, 100)
                break_branch(table, lost)
        lake = Lake(site)
        lake.keep(JOB)
        lake.set_back(JOB)
        lake.ends[JOB] = lake.end(lake.apply(JOB))
        assert (lake.ends[JOB][-3], lake.ends[JOB][-2]) == ({"refs": 4}, "done")
        yield lake


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
def test_a_stop_leaves_the_run_open(lake: Lake, monkeypatch: pytest.MonkeyPatch, stop: Callable[..., None]) -> None:
    endings.test_a_stop_leaves_the_run_open_and_the_same_apply_ends_it(lake, monkeypatch, stop, JOB)


def test_a_killed_process_is_gone_on_with(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    endings.test_a_killed_process_is_shown_as_stopped_and_gone_on_with(lake, monkeypatch, JOB)


def test_an_expired_plan_is_settled_and_closed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    endings.test_an_expired_plan_is_settled_and_closed(lake, monkeypatch, JOB)


def test_a_refusal_closes_the_run(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    endings.test_a_refusal_closes_the_run_and_uses_the_plan_up(lake, monkeypatch, JOB)
