"""Ask the one question of a fleet: which of these candidates does any holder need? The answer is `Findings`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakewarden.model.plan import FILES_DIR, PartFile
from lakewarden.model.roots import Root, home_of
from lakewarden.pipeline.compare.answer import Answer
from lakewarden.pipeline.compare.candidates import Candidates
from lakewarden.pipeline.compare.holders import Holders
from lakewarden.pipeline.compare.plan_files import JudgeTask, empty_part
from lakewarden.pipeline.compare.verdicts import Rules
from lakewarden.pipeline.read.manifests import FEW_LISTS, ReadTask
from lakewarden.pipeline.read.places import Places
from lakewarden.pipeline.spark.work import Starting
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.compare.manifest_cache import cache_files, remember
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark, seeing
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.steps.observe.links import reached_by_links

if TYPE_CHECKING:
    from lakewarden.pipeline.compare.compare import Memory

STRAY = re.compile(r"part-[0-9a-f]{32}\.parquet")
# Where a cluster waits, its executors are nearer to the store and more than one: the driver reads what would be one task.
FEW_LISTS_OF_A_CLUSTER = 16


@dataclass(frozen=True)
class Ground:
    """Where a comparison takes place: the roots of a fleet that it may change, and the directory of the plan.

    `complete`: the candidates are everything under these roots. `count_needs`: how many files each table needs is asked
    for too.
    """

    fleet: Fleet
    roots: Collection[Root]
    directory: str
    session: Starting
    complete: bool = False
    count_needs: bool = False


def compare(
    deployment: Deployment,
    ground: Ground,
    holders: Holders,
    candidates: Candidates,
    rules: Rules,
    memory: Memory | None = None,
) -> Findings:
    """Judge the candidates; rows go to the plan's directory, and what was read and proven to the cache."""
    # Loaded here: the commands that only read plans do without Spark.
    from lakewarden.pipeline.compare.compare import Comparison
    from lakewarden.pipeline.compare.compare import compare as compare_files

    asked = Comparison(
        spark=seeing(ground.session, deployment.stores, (root.prefix for root in ground.fleet.roots)),
        read=read_task(deployment),
        cache=cache_files(deployment),
        places=Places.of(ground.fleet.roots),
        swept=frozenset(root.id for root in ground.roots),
        complete=ground.complete,
        count_needs=ground.count_needs,
    )
    task = judge_task(deployment, ground.fleet, ground.roots, rules, ground.directory)
    answer = in_spark(lambda: compare_files(holders, candidates, task, asked, memory))
    empty_parts(deployment, [ground.directory + part.name for part in answer.discarded])
    remember(deployment, answer.kept, asked.cache.used)
    return with_links(Findings.of(answer, rules.changing), answer, ground.fleet)


def with_links(findings: Findings, answer: Answer, fleet: Fleet) -> Findings:
    """With the roots refused whose files a manifest, or a link under another root, reaches by another name."""
    found = reached_by_links((root.prefix for root in fleet.roots), (*answer.directories, *answer.links))
    if not found:
        return findings
    linked = {root.id: found[root.prefix] for root in fleet.roots if root.prefix in found}
    return replace(findings, root_refusals={**linked, **findings.root_refusals})


def read_task(deployment: Deployment) -> ReadTask:
    few = FEW_LISTS_OF_A_CLUSTER if deployment.on_cluster else FEW_LISTS
    return ReadTask(deployment.stores, deployment.readers, few)


def judge_task(
    deployment: Deployment, fleet: Fleet, roots: Collection[Root], rules: Rules, directory: str
) -> JudgeTask:
    """What judging tasks need to know of these roots of a fleet."""
    listed = {root.id for root in roots}
    unlisted = {name for root in fleet.roots if root.id not in listed for name in root.tables}
    return JudgeTask(
        stores=deployment.stores,
        rules=rules,
        identifiers=tuple(state.identifier for state in fleet.states),
        directory=directory,
        prefixes=tuple(sorted(root.prefix for root in roots)),
        homes={root.id: home for root in roots if (home := home_of(root, fleet.homes))},
        by_name=frozenset(fleet.homes),
        whole=frozenset(n for name, n in fleet.numbers.items() if name in fleet.homes and name not in unlisted),
    )


def empty_parts(deployment: Deployment, parts: Iterable[str]) -> None:
    """Leave no row that does not count: whoever reads files/*.parquet sees each file's last verdict only."""
    for part in parts:
        deployment.stores.put(part, empty_part())


def empty_strays(deployment: Deployment, directory: str, parts: Iterable[PartFile]) -> None:
    """The same for files of tasks that were tried again, or overtaken by their own copies: the header names none of them."""
    named = {part.name for part in parts}
    if not named:
        return
    place, emptied = f"{directory}{FILES_DIR}/", len(empty_part())
    found = (file for file in deployment.stores.places(place).files if STRAY.fullmatch(file.key))
    strays = (file for file in found if f"{FILES_DIR}/{file.key}" not in named and file.size != emptied)
    empty_parts(deployment, [place + file.key for file in strays])
