"""Tokens, sessions and decisions on plans."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from lakewarden.ledger.connection import connect
from lakewarden.ledger.database import Ledger
from lakewarden.ledger.tokens import SESSION_LASTS
from lakewarden.model.actor import Actor, person_of
from lakewarden.model.errors import ApprovalError, NotFoundError, UsageError
from lakewarden.model.service import Decision, Role
from tests.support.ledger import SteppedClock


def test_a_token_opens_until_it_is_revoked(ledger: Ledger) -> None:
    plaintext = ledger.tokens.create("ada", Role.OPERATOR, created_by="root")
    found = ledger.tokens.check(plaintext)
    assert found is not None
    assert (found.name, found.role, found.created_by) == ("ada", Role.OPERATOR, "root")
    assert ledger.tokens.revoke("ada").revoked_at is not None
    assert ledger.tokens.check(plaintext) is None
    with pytest.raises(NotFoundError):
        ledger.tokens.revoke("bob")


@pytest.mark.parametrize("wrong", ["", "lw_", "lw_0123456789abcdef_" + "A" * 43, "x" * 5000, "lw_\x00_é"])
def test_anything_else_opens_nothing(ledger: Ledger, wrong: str) -> None:
    ledger.tokens.create("ada", Role.VIEWER, created_by="root")
    assert ledger.tokens.check(wrong) is None


def test_another_tokens_secret_opens_nothing(ledger: Ledger) -> None:
    ada, bob = (ledger.tokens.create(name, Role.VIEWER, created_by="root") for name in ("ada", "bob"))
    assert ledger.tokens.check(ada[:20] + bob[20:]) is None


def test_a_token_runs_out(ledger: Ledger, clock: SteppedClock) -> None:
    plaintext = ledger.tokens.create("ada", Role.VIEWER, created_by="root", days=1)
    clock.sleep(23 * 3600)
    assert ledger.tokens.check(plaintext) is not None
    clock.sleep(3600)
    assert ledger.tokens.check(plaintext) is None
    assert not ledger.tokens.any_counts()
    ledger.tokens.create("ada", Role.VIEWER, created_by="root")
    assert ledger.tokens.any_counts()


def test_a_name_has_one_token(ledger: Ledger) -> None:
    first = ledger.tokens.create("ada", Role.VIEWER, created_by="root")
    with pytest.raises(UsageError, match="already"):
        ledger.tokens.create("ada", Role.APPROVER, created_by="root")
    ledger.tokens.revoke("ada")
    second = ledger.tokens.create("ada", Role.APPROVER, created_by="root")
    assert ledger.tokens.check(first) is None
    assert [token.role for token in ledger.tokens.list()] == [Role.APPROVER]
    assert ledger.tokens.check(second) is not None


@pytest.mark.parametrize("name", ["", "@schedule", "a b", "a/b", "x" * 65, "a:b"])
def test_some_names_are_none(ledger: Ledger, name: str) -> None:
    with pytest.raises(UsageError):
        ledger.tokens.create(name, Role.VIEWER, created_by="root")


def test_the_database_holds_no_secret(ledger: Ledger, ledger_url: str, clock: SteppedClock) -> None:
    plaintext = ledger.tokens.create("ada", Role.VIEWER, created_by="root")
    token = ledger.tokens.check(plaintext)
    assert token is not None
    cookie, _ = ledger.tokens.open_session(token)
    connections = connect(ledger_url, clock)
    with connections.read() as connection:
        for table in ("lw_tokens", "lw_sessions"):
            rows = connection.execute(text(f"SELECT * FROM {table}")).all()
            assert rows
            assert plaintext[20:] not in repr(rows)
            assert cookie not in repr(rows)
    connections.close()


def test_a_use_is_noted_once_a_minute(ledger: Ledger, clock: SteppedClock) -> None:
    plaintext = ledger.tokens.create("ada", Role.VIEWER, created_by="root")
    ledger.tokens.check(plaintext)
    first = ledger.tokens.list()[0].last_used_at
    ledger.tokens.check(plaintext)
    assert ledger.tokens.list()[0].last_used_at == first is not None
    clock.sleep(61)
    ledger.tokens.check(plaintext)
    assert ledger.tokens.list()[0].last_used_at != first


def test_a_session_ends_with_its_time_its_logout_and_its_token(ledger: Ledger, clock: SteppedClock) -> None:
    token = ledger.tokens.check(ledger.tokens.create("ada", Role.OPERATOR, created_by="root"))
    assert token is not None
    cookies = []
    for _ in range(3):
        cookie, session = ledger.tokens.open_session(token)
        found = ledger.tokens.session(cookie)
        assert found is not None
        assert (found.csrf, found.token.name) == (session.csrf, "ada")
        cookies.append(cookie)
    ledger.tokens.close_session(cookies[0])
    assert [ledger.tokens.session(cookie) is not None for cookie in cookies] == [False, True, True]
    ledger.tokens.revoke("ada")
    assert ledger.tokens.session(cookies[1]) is None


def test_an_old_session_opens_nothing(ledger: Ledger, clock: SteppedClock) -> None:
    token = ledger.tokens.check(ledger.tokens.create("ada", Role.OPERATOR, created_by="root"))
    assert token is not None
    cookie, _ = ledger.tokens.open_session(token)
    clock.sleep(SESSION_LASTS.total_seconds() + 1)
    assert ledger.tokens.session(cookie) is None


def test_roles_are_ordered() -> None:
    assert [[one.allows(other) for other in Role] for one in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_a_plan_is_decided_on_once_and_not_by_its_planner(ledger: Ledger) -> None:
    ada, bob, eve = (Actor(name, "host-1") for name in ("ada", "bob", "eve"))
    with pytest.raises(ApprovalError, match="cannot decide"):
        ledger.approvals.decide("p1", Decision.APPROVED, ada, planned_by="ada")
    assert ledger.approvals.get("p1") is None
    made = ledger.approvals.decide("p1", Decision.APPROVED, bob, planned_by="ada", reason="looked at it")
    assert (made.actor, made.reason, made.planned_by) == (bob, "looked at it", "ada")
    assert ledger.approvals.decide("p1", Decision.APPROVED, bob, planned_by="ada") == made
    with pytest.raises(ApprovalError, match="approved by bob"):
        ledger.approvals.decide("p1", Decision.REJECTED, eve, planned_by="ada")
    assert ledger.approvals.get("p1") == made
    assert ledger.approvals.of(["p0", "p1"]) == {"p1": made}
    assert ledger.approvals.list() == [made]


@pytest.mark.parametrize(
    ("name", "person"),
    [("ada", "ada"), ("Ada", "ada"), ("ada+ci", "ada"), ("ada+ci@x.org", "ada@x.org"), ("ada@x.org", "ada@x.org")],
)
def test_a_person_may_have_several_tokens_and_is_one_person(ledger: Ledger, name: str, person: str) -> None:
    assert ledger.tokens.create(name, Role.VIEWER, created_by="root")
    assert person_of(name) == person
