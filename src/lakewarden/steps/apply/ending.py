"""The one place where a run ends, whatever its job and whatever ends it (docs/design/0021-one-ending.md).

A run is closed when its work is done, or when something came up that no second try would mend: an expired plan, a lake
that changed, a refusal. Everything else is a stop. A stop leaves the run open and marked `stopped`, so the plan is not
used up, and the same `apply` goes on with it: a freeze, a lost lease, a signal, a store that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from lakewarden.ledger.chain import noted_hash
from lakewarden.ledger.heads import Head, head_uri, write_head, write_stop
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.run_status import run_lease
from lakewarden.ledger.statuses import FAILED, STOPPED
from lakewarden.logs import bind
from lakewarden.model.errors import (
    CatalogUnavailableError,
    FrozenError,
    JavaMissingError,
    LakewardenError,
    LeaseHeldError,
    LeaseLostError,
    MissingStoreError,
    SparkFailedError,
    StaleValidationError,
    StateError,
    StoreUnavailableError,
)
from lakewarden.model.lease import LeaseState
from lakewarden.model.run import RESTORED, RunResult
from lakewarden.model.webhooks import of_error
from lakewarden.steps.counts import Count, restored_kind
from lakewarden.steps.deployment import Deployment

# What passes by itself or by somebody's hand.
PASSING = (
    CatalogUnavailableError,
    FrozenError,
    JavaMissingError,
    LeaseHeldError,
    LeaseLostError,
    MissingStoreError,
    SparkFailedError,
    StaleValidationError,
    StateError,
    StoreUnavailableError,
)
UNFORESEEN = LakewardenError.code


class Work(Protocol):
    """What one run does, and what is to be said of it."""

    def do(self) -> None:
        """All of it. Raises whatever ends it early."""
        ...

    def result(self, error: LakewardenError | None = None) -> RunResult:
        """What the record says by now of every process that worked on the run; `error` is what closed it early."""
        ...


def run_to_its_end(
    deployment: Deployment,
    run_id: str,
    lease: Lease,
    begin: Callable[[], Work],
    *,
    resumable: bool = True,
    stopped: Callable[[RunResult], None] | None = None,
) -> RunResult:
    """Do the work of a run and end the run: closed with a result, or left open as stopped. Raises what ended it early.

    A run without a plan cannot be gone on with by anybody, so it is closed by a stop too: not `resumable`. Before
    anything is raised, `stopped` is told what the record says by then.
    """
    work: Work | None = None
    closed = False
    try:
        work = begin()
        if deployment.stores.head(head_uri(deployment.state, run_id)) is not None:
            # The run was over when its process died, and only its record was not closed.
            return close_run(deployment, work.result())
        try:
            work.do()
        except BaseException as error:
            if resumable and (isinstance(error, PASSING) or not isinstance(error, LakewardenError)):
                raise
            _note(deployment, run_id, FAILED, error)
            early = error if isinstance(error, LakewardenError) else LakewardenError(_told(error)[1])
            close_run(deployment, work.result(early))
            closed = True
            raise
        return close_run(deployment, work.result())
    except BaseException as error:
        if work is not None and isinstance(error, LakewardenError):
            _tell(error, work, closed)
        _stop(deployment, run_id, lease, error)
        if work is not None and stopped is not None:
            with suppress(LakewardenError):  # a record that cannot be read must not hide what ended the run
                stopped(work.result())
        raise


def close_run(deployment: Deployment, result: RunResult) -> RunResult:
    """Close a run with what it did, after the journal's head is kept outside the database."""
    # The head is the run's last mark: a database that goes back to before this moment has forgotten how the run ended.
    deployment.ledger.runs.add_mark(result.run_id)
    # The head first: a closed run without one would look like a journal that somebody cut.
    write_head(deployment.stores, deployment.state, result.run_id, _head(deployment, result.run_id))
    deployment.ledger.runs.finish(result.run_id, result.status, result.as_json())
    bind(run_id=result.run_id, job=result.job).info(
        "run ends", status=str(result.status), **{**result.changed, "deleted": result.deleted.files}
    )
    return result


def _head(deployment: Deployment, run_id: str) -> Head:
    steps = deployment.ledger.runs.steps(run_id)
    return Head(deployment.ledger.journal.head(run_id), len(steps), noted_hash(steps))


def _stop(deployment: Deployment, run_id: str, lease: Lease, error: BaseException) -> None:
    """Leave an open run marked as stopped, and say what stopped it. A closed run stays as it is."""
    code, message = _told(error)
    # Whoever started the run is told by the error itself.
    bind(run_id=run_id).info("run stopped", code=code, message=message)
    # A record that cannot be written must not hide what stopped the run. Nobody renews the run's lease any more, and by
    # that `runs` shows it as stopped too.
    with suppress(LakewardenError, OSError):
        if not _taken_over(deployment, run_id, lease) and deployment.ledger.runs.mark(run_id, STOPPED):
            _note(deployment, run_id, STOPPED, error)
            when = f"{run_id}/{STOPPED}/{deployment.clock.now().isoformat()}"
            deployment.ledger.outbox.add([of_error(when, code, message, STOPPED, run_id=run_id)])
            # Nobody may ever go on with the run: what it deleted is proven all the same.
            if (run := deployment.ledger.runs.get(run_id)) is not None and run.marks:
                write_stop(deployment.stores, deployment.state, run_id, run.marks, _head(deployment, run_id))


def _tell(error: LakewardenError, work: Work, closed: bool) -> None:
    """Let an error say what its run has changed until then, as far as the record can be read.

    An error that says that nothing was changed was meant for a command that had not begun.
    """
    try:
        result = work.result()
        changed, restored = result.changed, restored_kind(result.job)
    except LakewardenError:
        done = "What the run had changed until then is on its record."
    else:
        kinds = {restored if kind == RESTORED else kind: number for kind, number in changed.items() if number}
        if not kinds and not error.says_unchanged:
            return
        counts = ", ".join(str(Count(number, kind)) for kind, number in kinds.items()) or "nothing"
        had = "brought back" if RESTORED in changed else "changed"
        done = f"By its record the run had {had} {counts} until then, and what was under way may be changed too."
    error.after(done if closed or "apply again" in error.hint else f"{done} The same apply goes on with it.")


def _note(deployment: Deployment, run_id: str, name: str, error: BaseException) -> None:
    code, message = _told(error)
    deployment.ledger.runs.step(run_id, name, {"code": code, "message": message})


def _taken_over(deployment: Deployment, run_id: str, lease: Lease) -> bool:
    """Whether another worker has the run by now, because this one's lease ran out: then its status is that worker's."""
    try:
        found = deployment.leases.look(run_lease(run_id))
    except LakewardenError:
        return False  # only what is shown depends on it: who may go on is decided by the lease itself
    return found is not None and found.state is LeaseState.HELD and found.epoch > lease.epoch


def _told(error: BaseException) -> tuple[str, str]:
    """Code and message of whatever was raised, a signal's too."""
    code, message = getattr(error, "code", None), getattr(error, "message", None)
    if isinstance(code, str) and message:
        return code, str(message)
    return UNFORESEEN, f"stopped by {type(error).__name__}" + (f": {error}" if str(error) else "")
