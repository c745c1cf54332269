"""Plans as they lie on disk or in a bucket: where, and the header of each."""

from __future__ import annotations

from pathlib import Path

from lakewarden.model.errors import NotFoundError
from lakewarden.model.plan import PLAN_FILE, Plan
from lakewarden.model.run import PlanResult
from lakewarden.model.uri import FileUri
from lakewarden.storage.stores import Stores


def plan_directory(text: str) -> str:
    """The canonical address, with a slash, of what a user typed: a path or a URI."""
    return FileUri.parse(text if "://" in text else str(Path(text).resolve())).as_prefix()


def load_plan(stores: Stores, directory: str) -> PlanResult:
    """The header, its id checked. Raises NotFoundError or PlanEditedError."""
    place = plan_directory(directory)
    try:
        return PlanResult(Plan.loads(stores.get(place + PLAN_FILE)), place)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"there is no plan in {directory}; nothing was done",
            hint="`lakewarden plan JOB` prints where its plan lies.",
        ) from error


def shown_tables(plan: Plan) -> frozenset[str]:
    """Tables whose rows mean something: planned ones, and those that only a brake refused."""
    braked = {name for names in plan.brakes.values() for name in names}
    return frozenset(table.identifier for table in plan.tables if table.refusal is None or table.identifier in braked)
