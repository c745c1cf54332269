"""Every metric has its entry; alerts and dashboard ask for metrics and labels that there are; promtool agrees."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lakewarden.model.metrics import METRICS, PREFIX, MetricKind
from tests.docs.pages import DOCS, code_in, rows, sections, text_of
from tests.support.promtool import promtool

PAGE = DOCS / "how-to" / "monitoring.md"
FOLDER = DOCS / "monitoring"
BOARD: dict[str, Any] = json.loads(text_of(FOLDER / "dashboard.json"))
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
ALERTS = re.findall(r"^ +expr: (.+)$", text_of(FOLDER / "alerts.yml"), re.MULTILINE)
# Labels that Prometheus and histograms bring along.
THEIR_OWN = {"le"}


def known() -> dict[str, set[str]]:
    """The series that there are, each with its labels."""
    found: dict[str, set[str]] = {}
    for metric in METRICS:
        endings = ("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",)
        found |= {PREFIX + metric.name + ending: {*metric.labels} for ending in endings}
    return found


def test_every_metric_has_its_entry() -> None:
    said = {code_in(cells[0]): cells for cells in rows(text_of(PAGE), "metric")}
    assert list(said) == [PREFIX + metric.name for metric in METRICS]
    for metric in METRICS:
        _, kind, labels, meaning = said[PREFIX + metric.name]
        assert kind == metric.kind
        assert re.findall(r"`(\w+)`", labels) == list(metric.labels)
        assert meaning.startswith(metric.says)


@pytest.mark.parametrize("query", [*QUERIES, *ALERTS])
def test_queries_ask_for_what_there_is(query: str) -> None:
    asked = re.findall(rf"({PREFIX}\w+)(?:\{{([^}}]*)\}})?", query)
    assert asked
    labels = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", ",".join(inside for _, inside in asked)))
    for by in re.findall(r"by \(([^)]*)\)", query):
        labels |= {label.strip() for label in by.split(",")}
    there = {label for name, _ in asked for label in known()[name]}
    assert labels <= there | THEIR_OWN


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(QUERIES)
    assert [metric.name for metric in METRICS if PREFIX + metric.name not in shown] == []


def test_every_alert_is_explained() -> None:
    named = re.findall(r"alert: (\w+)", text_of(FOLDER / "alerts.yml"))
    assert [code_in(cells[0]) for cells in rows(sections(PAGE)["Alerts"], "alert")] == named
    tested = text_of(FOLDER / "alerts_test.yml")
    assert [name for name in named if not re.search(rf"alertname: {name}\n +exp_alerts:", tested)] == []


def test_runbooks_are_there() -> None:
    for page in re.findall(r"runbook: \"?(docs/[\w/.-]+\.md)", text_of(FOLDER / "alerts.yml")):
        assert (DOCS.parent / page).is_file(), page


def test_promtool_agrees_with_the_rules() -> None:
    assert promtool("check", "rules", "alerts.yml", beside=FOLDER)[0] == 0
    code, said = promtool("test", "rules", "alerts_test.yml", beside=FOLDER)
    assert code == 0, said
