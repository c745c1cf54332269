"""Progress on a terminal: what is over stays as a line, what is under way is drawn below it again and again."""

from __future__ import annotations

from threading import RLock
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


class OneAtATime(Console):
    """A console on which one thread at a time makes up what it prints and writes it.

    Rich makes it up and writes it apart. Whatever another thread draws in between is drawn from where the cursor is not
    yet, and wipes out the line above: a step that is over, or the command itself.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.turn = RLock()

    def __enter__(self) -> OneAtATime:
        self.turn.acquire()
        super().__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self.turn.release()


class Bars:
    """Steps at the bottom of a terminal."""

    def __init__(self) -> None:
        self._under_way: list[Step] = []
        self._spinner = Spinner("dots")
        console = OneAtATime(stderr=True, highlight=False)
        self._live = Live(
            get_renderable=self._draw,
            console=console,
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
        )
        self._live._lock = console.turn  # of two locks each could be held by one of two threads, for ever

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
