"""Every call that an apply makes to its stores, through every fault: nothing needed is lost, and every record is true."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from lakewarden.model.errors import LakewardenError
from lakewarden.model.run import PlanResult
from lakewarden.model.verdict import Outcome
from tests.steps.apply.s3.conftest import S3World
from tests.support.buckets import Bucket
from tests.support.fault_proxy import FAULTS, FaultProxy, Match, Request, method, slow_answer
from tests.support.lakes import append
from tests.support.worlds import hand_plan

MakeS3World = Callable[..., S3World]
GONE = {Outcome.DELETED, Outcome.HIDDEN, Outcome.QUARANTINED}


def conditional(path: str) -> Match:
    def match(request: Request) -> bool:
        wanted = request.header("If-Match") or request.header("If-None-Match")
        return request.method == "PUT" and path in request.path and wanted is not None

    return match


MOVED = "read the metadata of a table that moved"
# What an apply asks of its stores, by what it is for. Each entry matches at least one request of a run.
CALLS: dict[str, Match] = {
    "list a page to look at": method("GET", query="list-type"),
    "head a file": method("HEAD", path="/wh/"),
    "head the bucket": lambda request: request.method == "HEAD" and request.path.count("/") < 3,
    "ask for versioning": method("GET", query="versioning"),
    "delete": method("POST", query="delete"),
    "swap a lease": conditional("/leases/"),
    "create the owner record": conditional("owner.json"),
    "probe the conditions": method("PUT", path="conditions.probe"),
    "write the head of the journal": method("PUT", path="/journal-heads/"),
    MOVED: method("GET", path=".metadata.json"),
    "read the plan": method("GET", path="/plans/"),
}
KINDS = {**FAULTS, "slow_answer": slow_answer(0.3)}


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_lost_and_every_record_is_true(
    s3_world: MakeS3World, proxy: FaultProxy, bucket: Bucket, call: str
) -> None:
    """One world goes through all faults, one after the other: a run that was cut short is gone on with."""
    world = s3_world(("s3",), endpoint=proxy.endpoint, batch_size=4)
    met = 0
    for number, (name, fault) in enumerate(KINDS.items()):
        files = [bucket.put(f"wh/world0/sales/t0/data/{name}-{uuid.uuid4()}.parquet") for _ in range(6)]
        _forget_proofs(world)
        plan = hand_plan(world, files)
        if call == MOVED:
            append(world.table(), 100 + 10 * number)
        needed, rows = bucket.keys("wh/") - keys(files), world.rows()
        rule = proxy.on(CALLS[call], fault)
        _apply(world, plan)
        proxy.clear()
        met += rule.hits
        _check(world, bucket, files, needed, f"{name}, then")
        _let_go(world)
        assert _apply(world, plan) in (None, "LW-PLAN-004"), name  # it is finished now, or was before
        _check(world, bucket, files, needed, f"{name}, gone on with")
        assert world.warden.audit_verify()["ok"]
        assert world.rows() == rows
    assert met >= len(KINDS) - 2, "the call is hardly made any more: the table of calls is out of date"


def _apply(world: S3World, plan: PlanResult) -> str | None:
    """The code of the error that stopped the run, if one did. It may stop, as long as what it says is true."""
    try:
        world.apply(plan)
    except LakewardenError as error:
        return error.code
    return None


def keys(uris: list[str]) -> set[str]:
    return {uri.split("/", 3)[3] for uri in uris}


def _check(world: S3World, bucket: Bucket, files: list[str], needed: set[str], when: str) -> None:
    """Needed files are there, and the journal says of each other one what the bucket shows."""
    there = bucket.keys("wh/")
    assert needed <= there, f"{when}: needed files are lost"
    journal = world.warden._deployment.ledger.journal
    for uri in files:
        for deletion in journal.find(uri)[-1:]:
            if deletion.outcome == "open":
                continue
            gone = uri.split("/", 3)[3] not in there
            # Nobody else deletes here, so nothing was gone before we came.
            assert deletion.outcome != Outcome.ABSENT, f"{when}: {uri} went by our own hand"
            assert gone == (deletion.outcome in GONE), f"{when}: {uri} is recorded as {deletion.outcome}"


def _forget_proofs(world: S3World) -> None:
    """As a new process: its store has to show again that it keeps conditions, and owners are entered anew."""
    from lakewarden.storage.stores import _opened

    for store in _opened.values():
        if hasattr(store, "keeps_conditions"):
            store.keeps_conditions = False


def _let_go(world: S3World) -> None:
    """Leases whose release was lost: in real life they run out, here nobody waits."""
    leases = world.warden._deployment.leases
    for record in leases.list():
        if record.state == "held":
            leases.force_release(record.key, "the answer to its release was lost", "tester")
