"""Ask of a fleet what nobody would need in each of several cases. Nothing is written but what was proven, to the cache."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.model.roots import Root
from lakewarden.model.verdict import Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.candidates import Candidates
from lakewarden.pipeline.compare.holders import Holders
from lakewarden.pipeline.read.places import Places
from lakewarden.steps.compare.compare import Ground, judge_task, read_task, with_links
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.compare.manifest_cache import cache_files, remember
from lakewarden.steps.compare.rules import release_rules
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark


@dataclass(frozen=True)
class Case:
    """One case: the mark of whatever is needed in it, and the tables of which something goes. Mark 0: nothing is needed."""

    mark: int
    going: Collection[str]


def count_cases(
    deployment: Deployment,
    ground: Ground,
    holders: Holders,
    candidates: Candidates,
    cases: Sequence[Case],
    *,
    small_bytes: int,
    since: int,
) -> tuple[Findings, list[dict[str, Any]]]:
    """What was found wrong with tables and roots, and the rows of LEVEL_COUNTS.

    In each case the roots are looked at, and files counted for tables, as a plan that lets the same tables go would.
    """
    # Loaded here: the commands that only read plans do without Spark.
    from lakewarden.pipeline.compare.by_level import Level, LevelTask, compare_by_level
    from lakewarden.pipeline.compare.compare import Comparison

    fleet = ground.fleet
    levels = tuple(
        Level(
            case.mark,
            release_rules(deployment, fleet, case.going, only=c.MARK_RELEASED),
            frozenset(root.id for root in _roots_of(ground.roots, case.going)),
        )
        for case in cases
    )
    asked = Comparison(
        spark=ground.session.result,
        read=read_task(deployment),
        cache=cache_files(deployment),
        places=Places.of(fleet.roots),
        swept=frozenset(root.id for root in ground.roots),
    )
    every = {name for case in cases for name in case.going}
    rules = release_rules(deployment, fleet, every, only=c.MARK_RELEASED)
    task = judge_task(deployment, fleet, ground.roots, rules, ground.directory)
    counting = LevelTask(levels, small_bytes, since)
    answer, counts = in_spark(lambda: compare_by_level(holders, candidates, task, counting, asked))
    remember(deployment, answer.kept, asked.cache.used)
    return with_links(Findings.of(answer, Verdict.PENDING), answer, fleet), counts


def _roots_of(roots: Collection[Root], tables: Collection[str]) -> list[Root]:
    names = frozenset(tables)
    return [root for root in roots if names.intersection(root.tables)]
