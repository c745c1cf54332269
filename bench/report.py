"""The table: on the terminal, and kept as JSON and Markdown under the day's date."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import Figures, Row

RESULTS = Path(__file__).parent / "results"
HEADER = ("work", "ours", "other", "ratio", "target", "met", "load")


def line(row: Row) -> str:
    """One row as text, its stages below."""
    met = "met" if row.met else "NOT met"
    text = (
        f"{row.name}: {row.work}\n    ours {value(row, row.ours)}, other {value(row, row.peer)}, ratio {row.ratio:.2f}"
    )
    text += f" (target {target(row)}: {met}), load {row.load[0]} → {row.load[1]}"
    for who, figures in (("ours", row.ours), ("other", row.peer)):
        if figures.stages:
            text += f"\n    {who}: {stages(figures)}"
    return text + (f"\n    {row.note}" if row.note else "")


def value(row: Row, figures: Figures) -> str:
    return f"{figures.value:.0f} MB" if row.unit == "MB" else f"{figures.value:.2f} {row.unit}"


def target(row: Row) -> str:
    return f"≤ {row.target:g}" if row.at_most else f"≥ {row.target:g}"


def stages(figures: Figures) -> str:
    return ", ".join(f"{name} {amount:.2f}" for name, amount in figures.stages.items())


def keep(rows: list[Row], repeat: int, day: datetime | None = None) -> Path:
    """Rows measured again replace those of the same day, so that a disturbed one can be repeated alone."""
    name = f"{day or datetime.now(UTC):%Y-%m-%d}"
    path = RESULTS / f"{name}.json"
    RESULTS.mkdir(exist_ok=True)
    kept: dict[str, Any] = json.loads(path.read_text())["rows"] if path.exists() else {}
    kept |= {row.name: {**asdict(row), "met": row.met, "repeat": repeat, "text": _cells(row)} for row in rows}
    path.write_text(json.dumps({"day": name, "rows": kept}, indent=2, ensure_ascii=False) + "\n")
    path.with_suffix(".md").write_text(_markdown(name, kept))
    return path.with_suffix(".md")


def _cells(row: Row) -> list[str]:
    loaded = f"{row.load[0]} → {row.load[1]}"
    met = "yes" if row.met else "no"
    return [row.work, value(row, row.ours), value(row, row.peer), f"{row.ratio:.2f}", target(row), met, loaded]


def _markdown(name: str, rows: dict[str, Any]) -> str:
    lines = [
        f"# Benchmarks of {name}",
        "",
        "By `make bench`: two cores, one process, the same data, both sides warm, the median of the repetitions.",
        "The other side is Iceberg 1.12 `remove_orphan_files(dry_run)` unless the row says otherwise. Load is the",
        "machine's, before and after each row: the measured work alone makes about two.",
        "",
        f"| {' | '.join(HEADER)} |",
        f"|{'---|' * len(HEADER)}",
    ]
    lines += [f"| {' | '.join(row['text'])} |" for row in rows.values()]
    lines += ["", "## By stage", ""]
    for key, row in rows.items():
        unit = row["unit"]
        lines.append(f"- **{key}**{': ' + row['note'] if row['note'] else ''}")
        for who, side in (("ours", row["ours"]), ("other", row["peer"])):
            if side["stages"]:
                split = ", ".join(f"{stage} {amount:.2f}" for stage, amount in side["stages"].items())
                every = " / ".join(f"{sample:.2f}" for sample in side["samples"])
                lines.append(f"  - {who} ({unit}; all: {every}): {split}")
    return "\n".join(lines) + "\n"
