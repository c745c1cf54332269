"""By which rules files are judged: whose directory a file lies in, and how released files are kept or let go."""

from __future__ import annotations

from collections.abc import Collection

from lakewarden.model.roots import Claim
from lakewarden.model.verdict import Verdict
from lakewarden.pipeline.compare.verdicts import Ownership, Rules
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet


def release_rules(deployment: Deployment, fleet: Fleet, selected: Collection[str], *, only: int = 0) -> Rules:
    """How files are judged that metadata has named: needed or not, whatever their age and name.

    In a directory that tables share, a file is a selected table's: the others release nothing, and would hide it.
    """
    formats = sorted(deployment.readers)
    count = len(fleet.states)
    return Rules(
        owners=owners_of(fleet, [claim for claim in fleet.claims if claim.identifier in selected]),
        cutoffs=(0,) * count,
        selected=tuple(state.identifier in selected for state in fleet.states),
        confirm=(False,) * count,
        names=tuple(deployment.readers[name].names for name in formats),
        formats=tuple(formats.index(state.format) for state in fleet.states),
        changing=Verdict.PENDING,
        only=only,
    )


def owners_of(fleet: Fleet, of: Collection[Claim]) -> dict[int, tuple[Ownership, ...]]:
    """Whose directories lie in each root, of these, deepest first."""
    numbers = fleet.numbers
    owners: dict[int, tuple[Ownership, ...]] = {}
    claims = iter(sorted(of, key=lambda claim: claim.prefix))
    claim = next(claims, None)
    for root in sorted(fleet.roots, key=lambda root: root.prefix):
        inside = []
        while claim is not None and claim.prefix.startswith(root.prefix):
            inside.append(Ownership(claim.prefix, numbers[claim.identifier]))
            claim = next(claims, None)
        owners[root.id] = tuple(sorted(inside, key=lambda o: (-o.prefix.count("/"), o.prefix)))
    return owners
