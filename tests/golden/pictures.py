"""Pictures of terminals: what a screen shows, with its colours, as an SVG that needs nothing else."""

from __future__ import annotations

import io
import re

from tests.golden.normal import Normal

# Rich's own, without the fonts that it would fetch from another host.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
    <style>
    .{unique_id}-matrix {{
        font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
        font-variant-east-asian: full-width;
    }}
    .{unique_id}-title {{
        font-size: 18px;
        font-weight: bold;
        font-family: system-ui, sans-serif;
    }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    {chrome}
    <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
    </g>
</svg>
"""


_SPINNERS = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")


def picture(text: str, name: str, columns: int, base: str) -> str:
    """The screen as a picture, with what differs from run to run replaced, and broken at its edge as a terminal does."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in Text.from_ansi(Normal(base, "4").text(steady(text))).split("\n", allow_blank=True):
        line.rstrip()
        for start in range(0, max(1, len(line)), columns):
            console.print(line[start : start + columns], no_wrap=True)
    return console.export_svg(title="lakewarden", code_format=SVG, unique_id=name)


def steady(text: str) -> str:
    """A spinner that stands still; and Spark, which starts beside the other steps, is always up before the first that needs it."""
    lines = _SPINNERS.sub("⠋", text).split("\n")
    started = [line for line in lines if "start Spark" in line]
    others = [line for line in lines if line not in started]
    for place, line in enumerate(others):
        if started and "load tables" in line:
            return "\n".join([*others[: place + 1], *started, *others[place + 1 :]])
    return "\n".join(lines)
