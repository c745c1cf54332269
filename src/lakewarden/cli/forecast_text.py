"""A forecast as a person reads it: one bar for each retention, then the tables by what they would release."""

from __future__ import annotations

from lakewarden.cli.screen import Screen, number, size
from lakewarden.model.cost import Cost
from lakewarden.model.forecast import Forecast, Release, TableForecast
from lakewarden.steps.counts import FILES, Count

SHOWN_TABLES = 20
SHOWN_REFUSALS = 5
FULL, HALVES = "█", " ▏▎▍▌▋▊▉"
STEPS = " ▁▂▃▄▅▆▇█"
PLAIN_STEPS = " .:-=+*#@"
BEFORE_BAR = 44  # columns of a line before its bar


def show_forecast(screen: Screen, found: Forecast, cost: Cost, width: int) -> None:
    """The curve of all tables together, then one line for each table."""
    blocks = screen.can_print(FULL + HALVES + STEPS)
    counted = found.counted
    screen.line(f"FORECAST snapshot-expiry   {found.at:%Y-%m-%d %H:%M} UTC   nothing was changed", style="bold")
    _show_refused(screen, found)
    if not counted:
        return
    now = found.sum_of("now")
    screen.line()
    screen.line(f"{'retention':<11}{'snapshots':>10}{'files':>10}{'releases':>11}")
    for release in found.releases:
        screen.line(_bar_line(release, now.bytes, max(8, min(width, 120) - BEFORE_BAR - 6), blocks=blocks))
    screen.line()
    tables = "1 table" if len(counted) == 1 else f"{number(len(counted))} tables"
    held = sum(table.snapshots for table in counted)
    files, snapshots = Count(now.files, FILES), Count(held, "snapshots")
    screen.line(f"{'now':<9}{files}, {size(now.bytes)}, {snapshots} in {tables}")
    best = max(found.releases, key=lambda release: (release.tally.bytes, release.days))
    if best.tally.bytes:
        saved = cost.money(cost.of_month(best.tally.bytes))
        screen.line(f"{'saves':<9}{saved} a month at most, with a retention of {_days(best.days)}")
    _show_growth(screen, found)
    if len(counted) > 1:
        _show_tables(screen, found, width, STEPS if blocks else PLAIN_STEPS)


def _show_refused(screen: Screen, found: Forecast) -> None:
    refused = [table for table in found.tables if table.refusal]
    for table in refused[:SHOWN_REFUSALS]:
        assert table.refusal is not None
        screen.line()
        screen.line(f"REFUSED {table.identifier}   {table.refusal.code}", style="bold yellow")
        screen.line(f"  {table.refusal.message}")
        screen.line(f"  next: {table.refusal.hint}")
    if len(refused) > SHOWN_REFUSALS:
        screen.line(f"and {number(len(refused) - SHOWN_REFUSALS)} more refused; --output json names them all")


def _bar_line(release: Release, now: int, width: int, *, blocks: bool) -> str:
    tally = release.tally
    share = tally.bytes / now if now else 0.0
    told = f"{_days(release.days):<11}{number(release.snapshots):>10}{number(tally.files):>10}{size(tally.bytes):>11}"
    return f"{told}  {bar(share, width, blocks=blocks)} {share:>4.0%}"


def bar(share: float, width: int, *, blocks: bool) -> str:
    """A bar of so many columns; a share that is not zero is never shown as nothing."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    if not blocks:
        return ("#" * max(round(eighths / 8), 1 if share > 0 else 0)).ljust(width, ".")
    return (FULL * (eighths // 8) + (HALVES[eighths % 8] if eighths % 8 else "")).ljust(width)


def _show_growth(screen: Screen, found: Forecast) -> None:
    known = len(found.counted) - found.growth_unknown
    if known:
        unknown = f"; unknown of {number(found.growth_unknown)}" if found.growth_unknown else ""
        screen.line(f"{'adds':<9}{size(round(found.growth_a_day))} a day, by the last 30 days{unknown}")
    else:
        screen.line(f"{'adds':<9}unknown")


def _show_tables(screen: Screen, found: Forecast, width: int, steps: str) -> None:
    """The tables that would release most, each with its curve as a few characters."""
    most = sorted(found.counted, key=lambda table: (-_most(table), table.identifier))
    releasing = [table for table in most if _most(table)]
    shown = releasing[:SHOWN_TABLES]
    if not shown:
        return
    days = [found.retentions[0], *(d for d in (7, 30) if d in found.retentions[1:])]
    room = width - 10 * len(days) - 12 - 8
    screen.line()
    heads = "".join(f"{_short(d):>10}" for d in days)
    screen.line(f"{'table':<{room}}{heads}{'now':>11}  curve", style="bold")
    for table in shown:
        by_days = {release.days: release.tally.bytes for release in table.releases}
        cells = "".join(f"{size(by_days[d]):>10}" for d in days)
        curve = "".join(_step(release.tally.bytes, table.now.bytes, steps) for release in table.releases)
        line = f"{cells}{size(table.now.bytes):>11}  {curve}"
        if len(table.identifier) >= room:
            # A name is never cut: it is what the next command is given.
            screen.line(table.identifier)
            screen.line(f"{'':<{room}}{line}")
        else:
            screen.line(f"{table.identifier:<{room}}{line}")
    if len(releasing) > len(shown):
        screen.line(f"and {number(len(releasing) - len(shown))} more; --output json has them all")
    if len(releasing) < len(most):
        screen.line(f"{number(len(most) - len(releasing))} more would release nothing at any of these retentions")


def _most(table: TableForecast) -> int:
    return max((release.tally.bytes for release in table.releases), default=0)


def _step(part: int, whole: int, steps: str) -> str:
    return steps[-(-part * (len(steps) - 1) // whole)] if whole and part else steps[0]


def _days(days: int) -> str:
    return "1 day" if days == 1 else f"{days} days"


def _short(days: int) -> str:
    return f"{days} d"
