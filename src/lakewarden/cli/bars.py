"""Progress on a terminal: what is over stays as a line, what is under way is drawn below it again and again."""

from __future__ import annotations

from types import TracebackType
from typing import Any, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from lakewarden.cli.step import Step, duration, line_of

BAR = 20


class Bars:
    """Steps at the bottom of a terminal."""

    def __init__(self) -> None:
        self._under_way: list[Step] = []
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self._draw,
            console=Console(stderr=True, highlight=False),
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
        )

    def __enter__(self) -> Bars:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self._live.stop()

    def show(self, under_way: list[Step]) -> None:
        first = not self._under_way
        self._under_way = under_way
        if first:
            self._live.refresh()

    def ended(self, step: Step, well: bool) -> None:
        line = Text(line_of(step, well), overflow="ellipsis", no_wrap=True)
        line.stylize("green" if well else "red", 0, 1)
        self._live.console.print(line)

    def _draw(self) -> RenderableType:
        return Group(*(self._row(step) for step in self._under_way))

    def _row(self, step: Step) -> RenderableType:
        row = Table.grid(padding=(0, 2, 0, 0))
        sign = self._spinner.render(self._live.console.get_time())
        cells: list[RenderableType] = [Text.assemble(cast(Text, sign), " ", step.name)]
        if step.total > 1:
            cells += [ProgressBar(step.total, step.done, width=BAR), step.count]
        cells += [duration(step.seconds), *([step.left] if step.left else [])]
        for _ in cells:
            row.add_column(no_wrap=True)
        row.add_row(*cells)
        return row
