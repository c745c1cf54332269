"""Expiry of a Paimon table whose state database goes back while snapshot files go: what was released stays known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewarden.jobs.snapshot_expiry import table_steps
from lakewarden.model.errors import StateBehindError
from tests.formats.paimon.histories import Library, age, backdate
from tests.formats.paimon.site import EXPIRY, ORPHANS, Site
from tests.steps.apply.test_crash import Crash
from tests.steps.apply.test_state_set_back import Failover, keeping


@pytest.mark.parametrize("moment", ["before the run", "before the release", "when a table begins"])
def test_what_was_released_stays_known(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    with Site(tmp_path) as site:
        history = library.copy_of("partition_overwrites", site.warehouse())
        backdate(history, 12)
        age(history)
        plan, failover, delete = site.plan(EXPIRY), Failover(site), table_steps.delete
        released = plan.judged("pending")
        assert released

        def dying(*given: Any, **more: Any) -> None:
            delete(*given, **more)
            failover.keep("newest")
            failover.bring("old")
            raise Crash

        with monkeypatch.context() as patched:
            keeping(patched, failover, moment)
            patched.setattr(table_steps, "delete", dying)
            with pytest.raises(Crash):
                site.apply(plan)
        site.close()
        if moment != "when a table begins":
            for attempt in (lambda: site.apply(plan), lambda: site.plan(ORPHANS)):
                with pytest.raises(StateBehindError):
                    attempt()
            failover.bring("newest")
            site.close()
        site.apply(plan)
        assert released <= site.pending()
        assert not site.plan(ORPHANS).orphans() & released
