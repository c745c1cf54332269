"""What answers look like, and what every route takes alike: pages, limits, errors, the key of a repeated request."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lakewarden.model.big_numbers import with_texts
from lakewarden.model.redaction import redact

MOST = 500
# What an HTTP header or a name in an address may hold; control characters mean nothing in any name.
_PLAIN = r"^[^\x00-\x1f\x7f]+$"

Limit = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="How many to leave out first.")]
Search = Annotated[str, Query(max_length=300, pattern=r"^[^\x00]*$", description="Part of a name, in any case.")]
Word = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=_PLAIN)]
Glob = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=_PLAIN)]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[^\x00]*\S[^\x00]*$")]
Id = Annotated[str, Path(min_length=1, max_length=200, pattern=_PLAIN)]
Name = Annotated[str, Path(min_length=1, max_length=1000, pattern=_PLAIN)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key, sent again by the same token, gives what the first one made.",
    ),
]


class Open(BaseModel):
    """An answer to which fields may be added; whoever reads it leaves out what they do not know."""

    model_config = ConfigDict(extra="allow")


class Problem(Open):
    """What went wrong: a code with a page of its own, what was not done, and what to do next."""

    code: str = Field(examples=["LW-CORE-010"])
    message: str
    hint: str
    docs: str = Field(description="The page about the code.", examples=["/errors/LW-CORE-010"])
    request_id: str


class Asked(Open):
    """Something that a runner was asked to do, and what became of it until now."""

    request_id: str
    kind: str
    job: str | None
    status: str
    created_at: datetime
    finished_at: datetime | None
    operator: str
    run_id: str | None
    plan_id: str | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    url: str = Field(description="Where this answer is found again.")


_SAYS = {
    400: "The request cannot be done as it is put",
    401: "No token, or one that does not count",
    403: "The token's role does not suffice",
    404: "There is no such thing",
    409: "Something else is in the way: another request, a lease, a decision, a plan that was used",
    413: "The body is too long",
    422: "The request cannot be read",
    429: "Too much waits already",
    500: "Something that nobody foresaw",
    503: "The state, a store or a catalog does not answer",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": says} for status, says in _SAYS.items()
}


def told(document: Any) -> Any:
    """A document as it may be shown: nothing secret, and a text beside each number that a program may round."""
    return with_texts(redact(document))
