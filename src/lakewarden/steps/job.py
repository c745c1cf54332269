"""A job as one value: its names, what a user may write of it, what it changes, and the code that plans and applies it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from lakewarden.model.policy import Job
from lakewarden.steps.section import JobSection

if TYPE_CHECKING:
    from lakewarden.model.format import Format
    from lakewarden.model.plan import Plan
    from lakewarden.model.ports import Progress
    from lakewarden.model.run import PlanResult
    from lakewarden.steps.apply.apply import Runner
    from lakewarden.steps.deployment import Deployment
    from lakewarden.steps.plan.document import Request


@dataclass(frozen=True, slots=True)
class Words:
    """How a job's plans and runs are told: what happens to the things it changes, what its first line says, what is asked.

    `fate` and `done` follow the things that are changed: 3 partitions to go, 3 partitions dropped. `undo` is said after
    something was changed; `{restore}` in it becomes the command that makes what the run removed again. `others` are
    kinds of which something else becomes than of the job's own: 1 log to cut, 1 log cut. `waiting` is a table of which
    anything is planned: a job may have much to do and change no table.
    """

    fate: str = "to delete"
    done: str = "deleted"
    label: str = "TO DELETE"
    cutoff: str = "files modified after {} are kept"
    waiting: str = "to change"
    verb: str = "Delete"
    all_files: str = "listed"
    needed: str = "live"
    others: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    undo: str = 'What was deleted cannot be brought back. With delete_mode = "quarantine" it can, for some days.'

    def fate_of(self, kind: str) -> str:
        return self.others.get(kind, (self.fate, self.done))[0]

    def done_of(self, kind: str) -> str:
        return self.others.get(kind, (self.fate, self.done))[1]


class Planner(Protocol):
    """Observe and decide: the document of one plan."""

    def __call__(self, deployment: Deployment, request: Request, progress: Progress) -> PlanResult: ...


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job. Its package is named as its section, with `plan.plan` and `run.Run` in it.

    `changes` are the kinds of things that its plans count, the job's own first; `deletes` says whether its plans list
    files to delete; `does` is a line for people who do not know the job.

    `after` are the jobs that come before this one where both run the same night. `needs` are those of them whose failure
    would make this job less safe, each with the hazard: what that job left undone is not touched by this one. `ability` is
    the part of a Format that the job needs; a format without that part is not served. A job that `repeats` is planned again
    in the same command until nothing is left; its `run` module says what `may_go_on`.
    """

    name: Job
    does: str
    settings: type[JobSection]
    changes: tuple[str, ...]
    deletes: bool
    words: Words
    aliases: tuple[str, ...] = ()
    after: tuple[Job, ...] = ()
    needs: Mapping[Job, str] = field(default_factory=dict)
    ability: str | None = None
    repeats: bool = False

    @property
    def cron(self) -> str | None:
        """When the job runs unless its section says otherwise."""
        found: str | None = self.settings.model_fields["cron"].default
        return found

    def serves(self, found: Format) -> bool:
        """Whether the job can do its work for tables of a format."""
        return self.ability is None or getattr(found, self.ability) is not None

    @property
    def section(self) -> str:
        return self.name.section

    @property
    def plan(self) -> Planner:
        """Loaded when asked for: most commands need no planner."""
        found: Planner = self._module("plan").plan
        return found

    @property
    def runner(self) -> Runner:
        found: Runner = self._module("run").Run
        return found

    def packages(self, locations: Iterable[str]) -> tuple[str, ...]:
        """The jars, by Maven coordinates, that its runs on tables at these addresses need when Spark starts."""
        find = getattr(self._module("run"), "packages_for", None)
        return tuple(find(locations)) if find is not None else ()

    def may_go_on(self, deployment: Deployment, runs: Sequence[str], plan: Plan) -> bool:
        """Whether a plan may be applied by the command that has made these runs: it changes something, within the budget."""
        return bool(self._module("run").may_go_on(deployment, runs, plan))

    def _module(self, name: str) -> Any:
        return import_module(f"{self.settings.__module__.rpartition('.')[0]}.{name}")
