"""The combinations of each suite are its tests' parameters, and it has one lake."""

from __future__ import annotations

import pytest

from tests.steps.doubt.combinations import combinations
from tests.steps.doubt.groups import groups
from tests.steps.doubt.lake import build
from tests.steps.doubt.suite import OnOneLake, Plays


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    suite = metafunc.cls
    if suite is None or not issubclass(suite, OnOneLake):
        return
    if "combination" in metafunc.fixturenames:
        metafunc.parametrize("combination", combinations(suite.scenes(), suite.turn), ids=str)
    if "scene" in metafunc.fixturenames:
        metafunc.parametrize("scene", suite.scenes(), ids=str)


@pytest.fixture(scope="class")
def plays(request: pytest.FixtureRequest, spark: object, tmp_path_factory: pytest.TempPathFactory) -> Plays:
    base = tmp_path_factory.mktemp("doubt")
    return Plays(build(base, groups(base / "lake", request.cls.turn)))
