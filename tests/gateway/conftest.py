"""A gateway in front of a server that notes every byte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.raw import LOADED, answer
from tests.gateway.recorder import Recorder, recorder
from tests.support.gateways import RunningGateway, gateway


@pytest.fixture(scope="module")
def behind() -> Iterator[Recorder]:
    with recorder() as found:
        yield found


@pytest.fixture(scope="module")
def running(behind: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    more = "max_commit_bytes = 1048576\nrules_seconds = 0.0"
    with gateway(tmp_path_factory.mktemp("gateway"), behind.uri + "/base", more=more) as found:
        yield found


@pytest.fixture
def served(behind: Recorder) -> Recorder:
    behind.heard.clear()
    behind.answers[:] = [answer(LOADED)]
    behind.cut = 0
    return behind
