"""What the memory of tables costs a healthy fleet: asking it and writing it, beside the whole plan of the same tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from unittest.mock import patch

from bench.bench import Bench
from bench.lakes import local_lake
from bench.measure import Figures, Row, Sample, load
from bench.ours import Deployment, plan
from lakewarden.ledger.known_tables import KnownTables
from lakewarden.steps.observe import fleet
from lakewarden.steps.plan import document

MOST_SHARE = 0.03


def doubt(bench: Bench) -> list[Row]:
    """Seconds of the second plan of a quiet fleet, and how many of them the memory and the doubts took."""
    lake = local_lake(bench.scratch, "fleet1000", bench.shrink)
    assert bench.spark
    deployment = Deployment.fresh(lake, bench.scratch)
    warden = deployment.open()
    plan(deployment, warden)
    began = load()
    whole: list[Sample] = []
    asked: list[Sample] = []
    for _ in range(bench.repeat):
        with _clocked() as spent:
            took, _ = plan(deployment, warden)
        whole.append(took)
        asked.append(Sample(spent[0]))
    warden.close()
    deployment.discard()
    mine, all_of_it = Figures.of(asked), Figures.of(whole)
    work = f"remembering and doubting {lake.shape.tables} tables, as a share of their plan"
    share = mine.value / all_of_it.value
    return [Row("doubt", work, mine, all_of_it, share, MOST_SHARE, (began, load()), at_most=True)]


@contextmanager
def _clocked() -> Iterator[list[float]]:
    """Seconds spent in what only the memory of tables asks for."""
    spent = [0.0]

    def clocked(work: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object, **named: object) -> object:
            began = perf_counter()
            try:
                return work(*args, **named)
            finally:
                spent[0] += perf_counter() - began

        return run

    with ExitStack() as stack:
        for owner, name in (
            (KnownTables, "memory"),
            (fleet, "doubts_of"),
            (fleet, "unlisted_tables"),
            (document, "remember"),
            (document, "unknowns"),
        ):
            stack.enter_context(patch.object(owner, name, clocked(getattr(owner, name))))
        yield spent
