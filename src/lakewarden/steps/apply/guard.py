"""What every change stands on: the root's lease, our name on its bucket, and nobody having frozen the deployment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from lakewarden.ledger.lease import Lease
from lakewarden.ledger.leases import Watched
from lakewarden.ledger.run_status import naming_its_run
from lakewarden.model.errors import FrozenError, LeaseHeldError, NothingAppliedError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Progress
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.owners import claim_place, owner_record

LEASES_AT_ONCE = 16
WAITING = "wait for a lease"


def told_of_wait(progress: Progress) -> Watched:
    """What to call while a lease is waited for: whoever watches is told, and may stop the command."""
    return partial(progress, WAITING)


def root_lease(deployment: Deployment, prefix: str, *, wait: float = 0.0, watched: Watched | None = None) -> Lease:
    """The root's lease, waited for so many seconds though its holder is at work. Raises LeaseHeldError, or
    NothingAppliedError where another deployment is at home."""
    if (foreign := claim_place(deployment, owner_record(prefix))) is not None:
        raise NothingAppliedError(foreign.message, hint=foreign.hint)
    try:
        return deployment.leases.acquire(f"root/{prefix}", MARGINS.lease_seconds, wait=wait, watched=watched)
    except LeaseHeldError as error:
        raise naming_its_run(error, deployment.leases) from error


def root_leases(
    deployment: Deployment, prefixes: Sequence[str], stack: ExitStack, watched: Watched
) -> dict[str, Lease]:
    """The leases of several roots, held until the stack ends. Raises as `root_lease` for the first that is not to be had.

    Of two runs that want the same roots, the first root decides: side by side each could take what the other wants.
    """
    take = partial(root_lease, deployment, watched=watched)
    held = {prefix: stack.enter_context(take(prefix)) for prefix in prefixes[:1]}
    if len(prefixes) < 2:
        return held
    with ThreadPoolExecutor(LEASES_AT_ONCE) as pool:
        asked = {prefix: pool.submit(take, prefix) for prefix in prefixes[1:]}
    for prefix, answer in asked.items():
        if answer.exception() is None:
            # Entered here: a lease is renewed only while the thread lives that entered it.
            held[prefix] = stack.enter_context(answer.result())
    for answer in asked.values():
        answer.result()
    return held


def let_go(leases: Iterable[Lease]) -> None:
    """Release leases, side by side: each waits for its store."""
    with ThreadPoolExecutor(LEASES_AT_ONCE) as pool:
        for released in [pool.submit(lease.release) for lease in leases]:
            released.result()


def check_frozen(deployment: Deployment, left: str) -> None:
    """Raise FrozenError if somebody froze this deployment; `left` says what was not done because of it."""
    if (frozen := deployment.ledger.switches.frozen()) is not None:
        raise FrozenError(f"{frozen.who} froze this deployment{frozen.because}; {left}")


def all_held(leases: Sequence[Lease]) -> None:
    """Raise LeaseLostError unless every lease is still ours."""
    for lease in leases:
        lease.check()
