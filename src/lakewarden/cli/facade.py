"""What the commands need of the worker: one facade, opened late so that `--help` stays fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from lakewarden.model.actor import Actor
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanDiff, PlanResult, RunResult

Facts = Mapping[str, Any]


class Warden(Protocol):
    """The worker as the command line sees it. Every method raises LakewardenError and nothing else."""

    @property
    def worker(self) -> str:
        """The worker's id, for the record of who did what."""
        ...

    def plan(
        self,
        job: str,
        *,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        out: str | None = None,
        actor: Actor,
        unsafe_short_grace: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> PlanResult: ...

    def apply(
        self, plan_dir: str, *, actor: Actor, override_brakes: Sequence[str] = (), progress: Progress | None = None
    ) -> RunResult: ...

    def run(
        self,
        job: str,
        *,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        actor: Actor,
        progress: Progress | None = None,
    ) -> RunResult: ...

    def load_plan(self, plan_dir: str) -> PlanResult: ...

    def plan_rows(self, plan_dir: str, verdict: str | None = None, limit: int | None = None) -> Iterator[Facts]: ...

    def diff(self, plan_a: str, plan_b: str) -> PlanDiff: ...

    def runs(self, limit: int) -> Sequence[Facts]: ...

    def run_detail(self, run_id: str) -> Facts: ...

    def restore(self, run_id: str, actor: Actor) -> RunResult: ...

    def restore_cold(self, snapshot: str, table: str, actor: Actor, progress: Progress | None = None) -> RunResult: ...

    def abandon(self, uuid: str, reason: str, actor: Actor) -> None: ...

    def tables(self) -> Sequence[Facts]: ...

    def policies(self, identifier: str) -> Mapping[str, Mapping[str, tuple[Any, str]]]: ...

    def doctor(self) -> Facts: ...

    def explain(self, uri: str) -> Facts: ...

    def leases(self) -> Sequence[Facts]: ...

    def release_lease(self, key: str, reason: str, actor: Actor) -> None: ...

    def freeze(self, actor: Actor, reason: str) -> None: ...

    def unfreeze(self, actor: Actor) -> None: ...

    def audit_verify(self, run_id: str | None) -> Facts: ...

    def audit_who(self, uri: str) -> Sequence[Facts]: ...


def open_facade(config: str | None, verbose: bool) -> Warden:
    """The worker that the configuration describes."""
    from lakewarden.wiring import open_warden

    return open_warden(config, verbose=verbose)
