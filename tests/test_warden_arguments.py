"""Every public method says by name which argument it does not take, and raises nothing but LakewardenError."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakewarden
from lakewarden import writers
from lakewarden.model.actor import Actor
from lakewarden.model.arguments import RULES, UnfitError, checks_arguments, several
from lakewarden.model.errors import ArgumentError, LakewardenError, SparkFailedError
from lakewarden.warden import Warden
from lakewarden.wiring import Wiring
from lakewarden.writers import Lineage
from tests.support.worlds import World, make_world

METHODS = {
    name: inspect.signature(member)
    for name, member in inspect.getmembers(Warden)
    if inspect.isfunction(member) and not name.startswith("_")
}


class Parts:
    """Whoever asks for a part has gone past the arguments."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was opened")


@pytest.fixture
def warden() -> Warden:
    return Warden(Parts(), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "given", "argument"),
    [
        ("apply", {"plan": 5}, "plan"),
        ("apply", {"plan": "p", "wait": -1}, "wait"),
        ("apply", {"plan": "p", "wait": float("nan")}, "wait"),
        ("apply", {"plan": "p", "override_brakes": "all"}, "override_brakes"),
        ("plan", {"job": None}, "job"),
        ("plan", {"job": "orphans", "select": [5]}, "select"),
        ("plan", {"job": "orphans", "select": ""}, "select"),
        ("plan", {"job": "orphans", "select": []}, "select"),
        ("plan", {"job": "orphans", "select": {"a": 1}}, "select"),
        ("plan", {"job": "orphans", "progress": "loud"}, "progress"),
        ("plan", {"job": "orphans", "actor": "ada"}, "actor"),
        ("plan", {"job": "orphans", "actor": Actor(5, "w")}, "actor"),
        ("run", {"job": "orphans", "exclude": None}, "exclude"),
        ("runs", {"limit": 0}, "limit"),
        ("runs", {"limit": True}, "limit"),
        ("runs", {"limit": None}, "limit"),
        ("runs", {"limit": 2**63}, "limit"),
        ("plan_rows", {"plan_dir": "p", "verdict": "orphans"}, "verdict"),
        ("run_detail", {"run_id": ""}, "run_id"),
        ("run_detail", {"run_id": "a\x00b"}, "run_id"),
        ("run_detail", {"run_id": "\ud800"}, "run_id"),
        ("heartbeat", {"table": "a.b.c", "ttl_seconds": -1}, "ttl_seconds"),
        ("release_lease", {"key": "root/x", "reason": ""}, "reason"),
        ("restore_cold", {"snapshot": 1.5, "table": "a.b.c"}, "snapshot"),
        ("explain", {"uri": b"s3://b/x"}, "uri"),
        ("standing", {"plan": "p"}, "plan"),
    ],
)
def test_the_argument_is_named(warden: Warden, method: str, given: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError) as found:
        getattr(warden, method)(**given)
    assert found.value.argument == argument
    assert (found.value.code, found.value.exit_code) == ("LW-CONF-003", 64)
    assert f"{method}: {argument} must be " in found.value.message
    assert found.value.message.endswith("; nothing was done")


def test_missing_and_unknown_arguments(warden: Warden) -> None:
    with pytest.raises(ArgumentError, match="missing a required argument: 'job'"):
        warden.plan()  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="unexpected keyword argument 'selct'"):
        warden.plan("orphans", selct="a")  # type: ignore[call-arg]


def test_a_text_is_one_pattern_and_never_its_letters() -> None:
    assert several("prod.sales.*") == ("prod.sales.*",)
    assert several(["a", "b"]) == ("a", "b")
    assert several(()) == ()
    with pytest.raises(UnfitError):
        several(iter("ab"))


@pytest.mark.parametrize("name", ["select", "exclude"])
def test_a_text_selects_the_tables_that_match_it_and_no_others(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A whole fleet was selected by the letter `*`."""
    asked: list[Any] = []
    monkeypatch.setattr("lakewarden.jobs.orphan_cleanup.plan.plan", lambda _, request, __: asked.append(request))
    world.warden.plan("orphans", **{name: "lake.sales.*"})
    assert getattr(asked[0], name) == ("lake.sales.*",)


# No text leads out of the directory that a test works in.
TEXTS = st.text(st.characters(exclude_characters="/"))
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.binary(), st.lists(st.integers()),
    st.dictionaries(TEXTS, st.integers()), st.builds(object), st.just(Actor), st.just(print), st.builds(Path),
    st.lists(TEXTS), st.sets(TEXTS),
)  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warden]:
    """A worker that writes where nobody is disturbed, and that starts no Spark."""
    place = tmp_path_factory.mktemp("arguments")
    world = make_world(place, ("sales.orders",))
    refused: Future[Any] = Future()
    refused.set_exception(SparkFailedError("there is no Spark here"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wiring, "_warm_spark", lambda *_, **__: refused)
        patch.chdir(place)
        yield world.warden
    world.close()


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_but_lakewarden_errors_for_whatever_is_given(real: Warden, method: str, data: st.DataObject) -> None:
    parameters = {name: one for name, one in METHODS[method].parameters.items() if name != "self"}
    needed = {name for name, one in parameters.items() if one.default is inspect.Parameter.empty}
    chosen = needed | (data.draw(st.sets(st.sampled_from(sorted(parameters)))) if parameters else set())
    with contextlib.suppress(LakewardenError):
        answer = getattr(real, method)(**{name: data.draw(ANYTHING, name) for name in sorted(chosen)})
        if method == "heartbeat":
            with answer:
                pass


def test_a_method_whose_argument_has_no_rule_cannot_be_defined() -> None:
    with pytest.raises(KeyError):

        @checks_arguments
        class Asked:
            def ask(self, whatever: int) -> None: ...


def test_every_rule_is_used() -> None:
    doors = {name: inspect.signature(getattr(lakewarden, name)) for name in lakewarden.__all__ if name != "__version__"}
    said = {name: inspect.signature(getattr(Lineage, name)) for name in ("properties", "on", "session")}
    methods = {**METHODS, **doors, **said, "made": inspect.signature(writers.lineage)}
    used = {name for signature in methods.values() for name in signature.parameters}
    assert {name.rpartition(".")[2] for name in RULES} <= used
    assert {name.partition(".")[0] for name in RULES if "." in name} <= {*methods}


def test_open_is_a_context_manager_and_checks_its_arguments(world: World) -> None:
    with lakewarden.open(world.config) as warden:
        assert warden.runs() == []
    with pytest.raises(ArgumentError) as found:
        lakewarden.open(5)  # type: ignore[arg-type]
    assert found.value.argument == "config"
    assert found.value.message.startswith("open: config must be")
