"""What every plan begins with: who asked for what, which tables may be changed, and each table's policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, Refusal, StateMisplacedError
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import PLAN_FILE, PartFile, Plan, PlannedRoot, TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.prefixes import Prefixes
from lakewarden.model.roots import Root, home_of
from lakewarden.model.run import PlanResult
from lakewarden.model.table import TableState
from lakewarden.model.uri import FileUri
from lakewarden.steps.compare.compare import empty_strays
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.clocks import store_now
from lakewarden.steps.observe.fleet import Fleet, load_fleet, selection
from lakewarden.steps.observe.memory import Reached, remember, unknowns
from lakewarden.steps.plan.own_commits import as_their_tables_allow

STRANGERS = ("LW-ROOT-002", "LW-ROOT-003")


class Policy(Protocol):
    """What every job's policy says of a table."""

    @property
    def enabled(self) -> bool: ...


APPROVAL = "approval"
P = TypeVar("P", bound=Policy)


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for: which tables may be changed, where the plan goes, who asked.

    `within`: beside `select`, patterns of which a table must match one as well.
    `enabled_only`: of the selected tables only those for which the job is enabled, as a night wants it.
    """

    actor: Actor
    directory: str
    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    unsafe_short_grace: Sequence[str] = ()
    enabled_only: bool = False
    within: Sequence[str] = ()


def asked_for(request: Request) -> str:
    """A selection in words."""
    found = ", ".join(request.select or request.within) or "what --exclude leaves"
    return f"{found} within {', '.join(request.within)}" if request.select and request.within else found


def chosen_of(fleet: Fleet, request: Request, policies: Mapping[str, Policy]) -> frozenset[str]:
    """The tables that may be changed. Raises NotFoundError if the selection leaves none."""
    wanted = selection(request.select, request.exclude, request.within)
    chosen = frozenset(filter(wanted, (s.identifier for s in fleet.states)))
    if not chosen and (request.select or request.exclude or request.within):
        raise NotFoundError(f"no table matches {asked_for(request)}; nothing was planned")
    if request.enabled_only:
        return frozenset(name for name in chosen if policies[name].enabled)
    return chosen


def policies_of(
    deployment: Deployment, fleet: Fleet, request: Request, job: Job, policy: Callable[[Mapping[str, Any]], P]
) -> tuple[dict[str, P], Fleet]:
    """Each table's policy; a table whose policy cannot be trusted is refused, and its roots with it."""
    check_places(deployment, fleet, request)
    policies: dict[str, P] = {}
    refused: dict[str, Refusal] = {}
    for state in fleet.states:
        found = deployment.policy_for(
            job,
            state.identifier,
            state.properties,
            uuid=state.uuid,
            unsafe_short_grace=request.unsafe_short_grace,
        )
        policies[state.identifier] = policy(found.values)
        if found.refusal is not None:
            refused[state.identifier] = found.refusal
    if not refused:
        return policies, fleet
    states = tuple(
        state.refused(refused[state.identifier]) if state.identifier in refused and not state.refusal else state
        for state in fleet.states
    )
    roots = tuple(_root_with(root, refused) for root in fleet.roots)
    return policies, replace(fleet, states=states, roots=roots)


def check_places(deployment: Deployment, fleet: Fleet, request: Request) -> None:
    """Raise if the state or the plan would lie among the files of a table. Nothing of the plan is written before."""
    places = Prefixes(root.prefix for root in fleet.roots)
    for name, place in (("state.location", deployment.state), ("the plan's directory", request.directory)):
        prefix = FileUri.parse(place).as_prefix()
        root = places.of(prefix)
        # Of a table at the top of a store, whose root holds whatever is there, only the root is refused.
        if root is not None and FileUri.parse(root).key.strip("/"):
            raise StateMisplacedError(
                f"{name} {prefix} lies in {root}, to which a table writes; nothing was planned, and no plan was written"
            )


def committable(deployment: Deployment, fleet: Fleet) -> Fleet:
    """The fleet, less what may not be committed to: stores whose clock is off, and tables under two names."""
    return replace(under_one_name(fleet), roots=tuple(store_now(deployment, fleet.roots)))


def under_one_name(fleet: Fleet) -> Fleet:
    """The fleet, less the tables that go by two names: a commit through one name would leave the other behind."""
    names: dict[str, list[str]] = {}
    for state in fleet.states:
        if state.uuid:
            names.setdefault(state.uuid, []).append(state.identifier)
    states = tuple(
        state.refused(_double(names[state.uuid])) if len(names.get(state.uuid, ())) > 1 and not state.refusal else state
        for state in fleet.states
    )
    return replace(fleet, states=states)


def to_change(
    deployment: Deployment, request: Request, job: Job, policy: Callable[[Mapping[str, Any]], P], now: datetime
) -> tuple[Fleet, dict[str, P], frozenset[str]]:
    """What a job that commits to tables begins with: the fleet, each table's policy, and the tables that may be changed."""
    policies, fleet = policies_of(deployment, load_fleet(deployment, now), request, job, policy)
    fleet = as_their_tables_allow(deployment, committable(deployment, fleet), job)
    return fleet, policies, chosen_of(fleet, request, policies)


def without_strangers(deployment: Deployment, fleet: Fleet) -> Fleet:
    """The fleet, less the roots in which the newest plan that listed found another table, or another history of one.

    For a job that lists nothing itself, such as physical deletion. An operator who has abandoned that other table, or has
    added its catalog to the configuration, plans orphan cleanup once more: the new plan lifts the refusal.
    """
    refused: dict[str, Refusal] = {}
    for job in (Job.ORPHAN_CLEANUP, Job.SNAPSHOT_EXPIRY):
        for saved in deployment.ledger.plans.list(job, 1):
            header = deployment.ledger.plans.header(saved.plan_id)
            for table in header.tables if header else ():
                if table.refusal is not None and table.refusal.code in STRANGERS:
                    hint = f"{table.refusal.hint} Then plan {job} again."
                    refused[table.identifier] = replace(table.refusal, hint=hint)
    if not refused:
        return fleet
    roots = (
        replace(root, refusal=root.refusal or next((refused[name] for name in root.tables if name in refused), None))
        for root in fleet.roots
    )
    return replace(fleet, roots=tuple(roots))


def _double(names: Sequence[str]) -> Refusal:
    return Refusal(
        "LW-ROOT-003",
        f"{' and '.join(names)} are one table; a commit through one name would leave the other behind",
        "Drop one of the two registrations, then plan again.",
    )


def _root_with(root: Root, refused: dict[str, Refusal]) -> Root:
    """A root all of whose tables are refused is not swept; beside others, the table's own rows are left out."""
    reasons = [refused[name] for name in root.tables if name in refused]
    return replace(root, refusal=root.refusal or reasons[0]) if len(reasons) == len(root.tables) else root


def table_plan(state: TableState, policy: Mapping[str, Any], refusal: Refusal | None = None, **more: Any) -> TablePlan:
    """A table's part of a plan: what it is now, by which values, and whatever the job decided of it."""
    return TablePlan(
        identifier=state.identifier,
        uuid=state.uuid,
        format=state.format,
        metadata_location=state.metadata_location,
        refs=state.refs,
        refusal=refusal,
        policy=policy,
        **more,
    )


def _naming_approval(
    deployment: Deployment, job: Job, fleet: Fleet, tables: Iterable[TablePlan]
) -> tuple[TablePlan, ...]:
    """The tables, each that would be changed and whose policy wants somebody to agree first with that in its values."""
    states = {state.identifier: state for state in fleet.states}

    def named(table: TablePlan) -> TablePlan:
        state = states.get(table.identifier)
        if state is None or table.refusal is not None or not any(table.changes.values()):
            return table
        found = deployment.policy_for(job, state.identifier, state.properties, uuid=state.uuid, unsafe_short_grace=())
        return replace(table, policy={**table.policy, APPROVAL: True}) if found.values.get(APPROVAL) else table

    return tuple(map(named, tables))


def planned_root(root: Root, fleet: Fleet, findings: Findings) -> PlannedRoot:
    return PlannedRoot(root.prefix, root.tables, findings.root_refusals.get(root.id), home_of(root, fleet.homes))


def draw_up(
    deployment: Deployment,
    request: Request,
    fleet: Fleet,
    job: Job,
    now: datetime,
    *,
    tables: Iterable[TablePlan],
    roots: Iterable[PlannedRoot] = (),
    parts: Iterable[PartFile] = (),
    cutoff: datetime | None = None,
    brakes: Mapping[str, tuple[str, ...]] | None = None,
    reached: Mapping[str, Reached] | None = None,
    detail: Mapping[str, Any] | None = None,
) -> PlanResult:
    """The plan, sealed: its header is written where its files are, and remembered, and so is what it saw of the tables."""
    parts = tuple(parts)
    empty_strays(deployment, request.directory, parts)
    document = Plan(
        job=job,
        created_at=now,
        expires_at=now + MARGINS.plan_lifetime,
        cutoff=cutoff or now,
        actor=request.actor,
        tables=_naming_approval(deployment, job, fleet, tables),
        roots=tuple(roots),
        parts=parts,
        pointers=fleet.pointers,
        brakes=brakes or {},
        notes=tuple(unknowns(fleet)),
        digests={state.identifier: state.digest for state in fleet.states if state.may_be_replaced},
        detail=detail or {},
    ).sealed()
    header = document.dumps()
    deployment.stores.put(request.directory + PLAN_FILE, header)
    deployment.ledger.plans.save(document, request.directory, header)
    remember(deployment, fleet, reached or {})
    return PlanResult(document, request.directory)
