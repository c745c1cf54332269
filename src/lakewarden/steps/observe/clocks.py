"""Whether a store's clock and ours agree: ages are judged by the store's, so a wrong one must not pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lakewarden.model.errors import ClockSkewError, LakewardenError, Refusal
from lakewarden.model.margins import MARGINS
from lakewarden.model.roots import Root
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.clock import skew


def store_now(deployment: Deployment, roots: Iterable[Root]) -> Iterator[Root]:
    """The roots, those of a store refused whose clock is more than five minutes off or cannot be asked."""
    asked: dict[str, Refusal | None] = {}
    for root in roots:
        if root.refusal is None and root.store not in asked:
            asked[root.store] = _disagreement(deployment, root)
        yield replace(root, refusal=root.refusal or asked.get(root.store))


def _disagreement(deployment: Deployment, root: Root) -> Refusal | None:
    # Local disk is stamped by this machine's kernel; the state's directory stands for all of it.
    place = deployment.state if root.store == "file://" else f"{root.store}/"
    try:
        ahead = skew(deployment.stores, place, deployment.worker, deployment.clock)
    except LakewardenError as error:
        return error.refusal()
    if abs(ahead) <= MARGINS.clock_skew:
        return None
    now = deployment.clock.now()
    return ClockSkewError(
        f"the clock of {root.store} says {now + ahead:%Y-%m-%d %H:%M:%S}, ours {now:%Y-%m-%d %H:%M:%S} UTC; nothing was touched"
    ).refusal()
