"""Whether a store's clock and ours agree: ages are judged by the store's, so a wrong one must not pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lakewarden.model.errors import ClockSkewError, LakewardenError, Refusal, StoreUnavailableError
from lakewarden.model.margins import MARGINS
from lakewarden.model.roots import Root
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.owners import two_names
from lakewarden.storage.clock import name_of, skew


def store_now(deployment: Deployment, roots: Iterable[Root]) -> Iterator[Root]:
    """The roots, those of a store refused whose clock is more than five minutes off or cannot be asked, or that is found
    to be another one under a second name."""
    every = list(roots)
    asked: dict[str, Refusal | None] = {}
    for root in every:
        if root.refusal is None and root.store not in asked:
            asked[root.store] = disagreement(deployment, root.store)
    asked |= _under_two_names(deployment, [store for store, why in asked.items() if why is None])
    for root in every:
        yield replace(root, refusal=root.refusal or asked.get(root.store))


def _under_two_names(deployment: Deployment, stores: Sequence[str]) -> dict[str, Refusal]:
    """Stores that are one bucket under two names: the probe of the last one asked has taken the place of the first's."""
    remote = [store for store in stores if store != "file://"]
    found: dict[str, Refusal] = {}
    for store in remote if len(remote) > 1 else ():
        try:
            other = name_of(deployment.stores, f"{store}/", deployment.worker)
        except (LakewardenError, FileNotFoundError) as error:
            message = f"the probe that was written to {store} cannot be read back ({error}); nothing was touched"
            found[store] = StoreUnavailableError(message).refusal()
            continue
        if other != store and other in remote:
            found[store] = found[other] = two_names(other, store)
    return found


def disagreement(deployment: Deployment, store: str) -> Refusal | None:
    """Why nothing is judged by age where a store (`s3://bucket`) has the files; None if its clock and ours agree."""
    # Local disk is stamped by this machine's kernel; the state's directory stands for all of it.
    place = deployment.state if store == "file://" else f"{store}/"
    try:
        ahead = skew(deployment.stores, place, deployment.worker, deployment.clock)
    except LakewardenError as error:
        return error.refusal()
    if abs(ahead) <= MARGINS.clock_skew:
        return None
    now = deployment.clock.now()
    return ClockSkewError(
        f"the clock of {store} says {now + ahead:%Y-%m-%d %H:%M:%S}, ours {now:%Y-%m-%d %H:%M:%S} UTC; nothing was touched"
    ).refusal()
