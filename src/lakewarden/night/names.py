"""The jobs that a user names: each once, in the order of a day, whatever order they were named in."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.jobs.registry import JOBS, job_named
from lakewarden.model.errors import UsageError
from lakewarden.steps.job import JobSpec

ALL = "all"


def named_jobs(names: Sequence[str]) -> tuple[JobSpec, ...] | None:
    """The jobs of these names, each once, in the order of a day; None for `all`. Raises UsageError for any other name."""
    if not names:
        raise UsageError("no job was named; nothing was done", hint=f"Name jobs, or `{ALL}`: {', '.join(JOBS)}.")
    if ALL in names:
        if len(set(names)) > 1:
            raise UsageError(
                f"`{ALL}` stands for every enabled job, and takes no other name beside it; nothing was done"
            )
        return None
    wanted = {job_named(name).name for name in names}
    return tuple(spec for spec in JOBS.values() if spec.name in wanted)
