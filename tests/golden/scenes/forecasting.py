"""`forecast` and `report`."""

from __future__ import annotations

from tests.golden.scene import Stage, Words, scene


@scene("forecast/one-table", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "forecast", "lake.sales.orders"


@scene("forecast/fleet", planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("cost.per_gib_month", "0.023")
    return "forecast", "--select", "*"


@scene("forecast/refused", 4, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "forecast", "lake.finance.invoices"


@scene("forecast/not-found", 10, planned_once=True)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "forecast", "lake.sales.nothing"


@scene("forecast/usage", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return ("forecast",)


@scene("report/written")
def _(stage: Stage) -> Words:
    stage.at("busy")
    return "report", "--out", "report.html", "--no-forecast"


@scene("report/no-such-directory", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "report", "--out", "nowhere/report.html", "--no-forecast"
