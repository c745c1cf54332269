"""The lake of the golden suite: Iceberg and Paimon tables of every fate, and moments of its life that commands start from."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.warden import Warden
from lakewarden.wiring import open_warden
from tests.golden.clock import StandingClock
from tests.golden.tables import build_iceberg, build_paimon
from tests.support.configuration import write_toml

# What stands in the expected files for the directory of the lake. Of the same width, so that lines break alike.
SHOWN_AS = "/data/lakewarden/example"
SECTIONS: dict[str, dict[str, Any]] = {
    "orphan_cleanup": {"rate_limit_ms": 0, "batch_size": 3},
    "snapshot_expiry": {"retain_hours": 168, "retain_min": 1, "retain_max": 3},
    "physical_deletion": {"visibility_delay_hours": 24, "rate_limit_ms": 0, "batch_size": 3},
    "partition_expiry": {"expiration_hours": 1440, "timestamp_formatter": "yyyy-MM-dd", "timestamp_pattern": "$day"},
    "manifest_rewrite": {"min_manifests": 3, "min_gain": 0.1},
}


def remove_all(directory: Path) -> None:
    """The directory and what is in it. A database that is just being closed takes files of its own away meanwhile."""

    def told(_: object, path: str, error: Any) -> None:
        if not isinstance(error[1], FileNotFoundError):
            raise error[1]

    shutil.rmtree(directory, onerror=told)


@dataclass
class Moment:
    """What a moment of the lake keeps beside its files."""

    at: datetime
    names: dict[str, str]


@dataclass
class GoldenLake:
    """The directory that commands run in, its clock, and the moments it can be set back to."""

    base: Path
    clock: StandingClock = field(default_factory=StandingClock)
    names: dict[str, str] = field(default_factory=dict)
    """Plans and runs by what they are called here: addresses and ids."""
    _kept: dict[str, Moment] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def built(cls) -> Iterator[GoldenLake]:
        """A lake in a new directory whose path is as long as the one that is shown for it."""
        # Letters that no id is made of, so that no part of the path is taken for one.
        name = "".join(secrets.choice("ghjkmnpqrstuvwxyz") for _ in range(len(SHOWN_AS) - len("/tmp/")))
        base = Path("/tmp", name)
        base.mkdir()
        try:
            lake = cls(base)
            lake.write_config()
            build_iceberg(base)
            build_paimon(base)
            lake.keep("new")
            yield lake
        finally:
            shutil.rmtree(base)

    def write_config(self) -> None:
        document = {
            "worker": {"id": "night-1"},
            "state": {"location": f"file://{self.base}/state"},
            "spark": {"master": "local[2]"},
            "catalogs": {
                "lake": {
                    "format": "iceberg",
                    "properties": {
                        "type": "sql",
                        "uri": f"sqlite:///{self.base}/catalog.db",
                        "warehouse": f"file://{self.base}/warehouse",
                    },
                },
                "stream": {"format": "paimon", "properties": {"warehouse": f"file://{self.base}/stream"}},
            },
            **SECTIONS,
            "tier_handoff": {"destination": f"file://{self.base}/cold"},
            "overrides": [{"match": "stream.*", "partition_expiry": {"timestamp_pattern": "$dt"}}],
        }
        write_toml(self.base / "lakewarden.toml", document)

    @contextmanager
    def warden(self) -> Iterator[Warden]:
        """The worker, for what happened before the command that is shown."""
        warden = open_warden(str(self.base / "lakewarden.toml"), clock=self.clock)
        try:
            yield warden
        finally:
            warden.close()

    def later(self, **time: float) -> None:
        self.clock.at += timedelta(**time)

    def at(self, moment: str) -> None:
        """Set everything back to how it was then. The first time, the moment is made from the one before it."""
        from tests.golden.moments import MOMENTS

        if moment not in self._kept:
            make: Callable[[GoldenLake], None] = MOMENTS[moment]
            make(self)
            self.keep(moment)
        kept = self._kept[moment]
        self.clock.at, self.clock.slept = kept.at, 0.0
        self.names = dict(kept.names)
        self._copy(self.base / "kept" / moment, self.base)

    def keep(self, moment: str) -> None:
        self._kept[moment] = Moment(self.clock.at, dict(self.names))
        self._copy(self.base, self.base / "kept" / moment)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        # Files of tables by hard links, since a plan knows a file by its number; what is rewritten in place by copies.
        for name in ("warehouse", "stream", "cold", "state", "catalog.db"):
            how: Any = shutil.copy2 if name in ("state", "catalog.db") else os.link
            old = target / name
            if old.exists():
                remove_all(old) if old.is_dir() else old.unlink()
            old.parent.mkdir(parents=True, exist_ok=True)
            if (source / name).is_dir():
                shutil.copytree(source / name, old, copy_function=how, symlinks=True)
            elif (source / name).exists():
                how(source / name, old)


def own_ids(patch: pytest.MonkeyPatch) -> None:
    """Ids that are never made of digits alone, so that they are told from counts; ids of snapshots of one width."""
    from pyiceberg.table import metadata

    from lakewarden import wiring
    from lakewarden.formats.iceberg.partitions import drop

    least, span, start = 10**18, 8 * 10**18, drop.start_removal

    class Ids:
        @staticmethod
        def token_hex(count: int) -> str:
            return f"{secrets.token_hex(count)[:-2]}a7"

    patch.setattr(wiring, "secrets", Ids)
    patch.setattr(metadata, "_generate_snapshot_id", lambda: least + secrets.randbelow(span))
    patch.setattr(
        drop,
        "start_removal",
        lambda document, location, snapshot, unique: start(document, location, least + snapshot % span, unique),
    )
