"""Signs that a plan itself may be wrong. A brake refuses a table; an operator may lift one for one plan, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakewarden.model.errors import PlanOutdatedError, Refusal
from lakewarden.model.partitions import Extent
from lakewarden.model.plan import Tally
from lakewarden.model.verdict import Brake

CODES = {brake: f"LW-BRAKE-{number:03d}" for number, brake in enumerate(Brake, start=1)}
SHRINK_SHARE = 0.5
STALE_INVENTORY_SHARE = 0.5
EMPTY = "no row would be left"


@dataclass(frozen=True, slots=True)
class Sight:
    """What one plan saw of one table, as the brakes look at it."""

    has_snapshot: bool
    listed: Tally
    live: Tally
    orphans: Tally
    missing: int = 0
    missing_example: str = ""
    from_inventory: bool = False
    last_live_files: int | None = None
    max_share: float = 1.0
    max_orphans: int = 1_000_000


def brakes(sight: Sight) -> Iterator[tuple[Brake, str]]:
    """Every brake that this sight pulls, with what it saw."""
    if sight.has_snapshot and not sight.live.files and not sight.missing:
        yield Brake.REACHABLE_EMPTY, "the table has a snapshot, yet no file was found reachable"
    if _missing_too_many(sight):
        yield (
            Brake.LIVE_MISSING,
            (
                f"{sight.missing} needed files are not in the listing, such as {sight.missing_example}: "
                "either they are lost, or paths are spelled in two ways"
            ),
        )
    if sight.listed.files and not sight.live.files and sight.has_snapshot:
        yield Brake.NOTHING_MATCHED, f"none of {sight.listed.files} listed files matched a needed one"
    if sight.orphans.files:
        files = sight.orphans.files / max(1, sight.listed.files)
        size = sight.orphans.bytes / max(1, sight.listed.bytes)
        if max(files, size) > sight.max_share:
            yield (
                Brake.ORPHAN_SHARE,
                (f"orphans are {files:.0%} of the files and {size:.0%} of the bytes (limit {sight.max_share:.0%})"),
            )
    if sight.orphans.files > sight.max_orphans:
        yield Brake.ORPHAN_CAP, f"{sight.orphans.files} orphans (limit {sight.max_orphans})"
    if sight.last_live_files is not None and sight.live.files < sight.last_live_files * (1 - SHRINK_SHARE):
        yield Brake.REACHABLE_SHRANK, f"{sight.live.files} files are reachable, {sight.last_live_files} were last time"


@dataclass(frozen=True, slots=True)
class DropSight:
    """What a plan that drops partitions saw of one table.

    `going` are the partitions that the plan drops; `due` are also those that are as old and wait for the next plans.
    """

    table: Extent
    going: Extent
    due: Extent
    max_share: float

    @property
    def empties(self) -> bool:
        """Whether no partition, or no row that can be counted, would be left."""
        if not self.going.partitions:
            return False
        return self.going.partitions >= self.table.partitions or self.going.rows_left >= self.table.rows_left


def drop_brakes(sight: DropSight) -> Iterator[tuple[Brake, str]]:
    """The brake that this sight pulls, with what it saw. Who lifts it for an emptied table has answered for any share."""
    if sight.empties:
        yield (
            Brake.TABLE_EMPTIED,
            f"{sight.going.partitions} of {sight.table.partitions} partitions would go and {EMPTY}",
        )
        return
    due, table = sight.due, sight.table
    shares = [_share(getattr(due, kind), getattr(table, kind)) for kind in ("partitions", "rows", "bytes")]
    if due.partitions and max(shares) > sight.max_share:
        named = "{:.0%} of the partitions, {:.0%} of the rows and {:.0%} of the bytes".format(*shares)
        more = due.partitions - sight.going.partitions
        now = f", {sight.going.partitions} partitions now and {more} by later plans" if more else ""
        yield Brake.DROP_SHARE, f"{named} are old enough to go (limit {sight.max_share:.0%}){now}"


def _share(part: int, whole: int) -> float:
    return part / whole if whole > 0 else float(part > 0)


def braked_since(table: str, brake: Brake, message: str) -> PlanOutdatedError:
    """What a run raises when a table has lost so much since the plan that a brake is pulled now."""
    return PlanOutdatedError(
        f"brake {brake}: of {table} as it is now, {message}; no further partition of it was dropped",
        hint=f"Plan again. If it is right, lift {brake} for the new plan.",
        code=CODES[brake],
    )


def _missing_too_many(sight: Sight) -> bool:
    """An inventory is older than the table, so a few new files are not in it; a listing misses none."""
    if sight.from_inventory:
        return sight.missing > STALE_INVENTORY_SHARE * (sight.missing + sight.live.files)
    return sight.missing > 0


def refusal(brake: Brake, message: str) -> Refusal:
    """The refusal that a pulled brake becomes."""
    hint = f"Find out why. If it is right: lakewarden apply PLAN_DIR --yes --override-brake {brake}"
    return Refusal(CODES[brake], f"brake {brake}: {message}; nothing of this table is touched", hint)
