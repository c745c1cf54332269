"""So many things of a kind, as a person says it: `1 ref`, `1,106 files`."""

from __future__ import annotations

from dataclasses import dataclass

import humanize

from lakewarden.model.policy import Job

FILES = "files"
REFS = "refs"
_ONE = {"branches": "branch"}


def restored_kind(job: str) -> str:
    """What `restore RUN` brings back of a run of this job."""
    return REFS if job == Job.STALE_BRANCHES else FILES


@dataclass(frozen=True, slots=True)
class Count:
    """So many things of a kind, and what becomes of them. `bytes` is known of files that are deleted or moved."""

    number: int
    kind: str
    fate: str = ""
    bytes: int | None = None

    def __str__(self) -> str:
        kind = self.kind if self.number != 1 else _ONE.get(self.kind, self.kind.removesuffix("s"))
        return f"{humanize.intcomma(self.number)} {kind}"
