"""A graph of who was made from whom, drawn in layers from left to right: as inline SVG, or as text for Graphviz.

Shapes carry classes and the page the colours, as in every picture here; a picture on its own brings both its schemes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewarden.reports.page.render import render

WIDE, HIGH = 268, 46  # of one box
BETWEEN, ABOVE = 74, 16  # boxes of two layers, and of one
MOST = 150  # boxes that a person can still read
LONGEST = 34  # letters in a box


@dataclass(frozen=True, slots=True)
class Node:
    """One box: its name, a second line, how many steps it is away from the first layer, and a class for its colour."""

    name: str
    label: str
    depth: int
    kind: str = "made"


@dataclass(frozen=True, slots=True)
class Box:
    x: int
    y: int
    first: str
    second: str
    title: str
    kind: str


@dataclass(frozen=True, slots=True)
class Line:
    path: str
    label: str
    x: int
    y: int
    guessed: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes and lines in the picture's own units. `left_out` are boxes beyond what can be read."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    left_out: int
    title: str
    box_width: int = WIDE
    box_height: int = HIGH


@dataclass(frozen=True, slots=True)
class Edge:
    """From one name to another; `guessed` where the input may have been another table's."""

    source: str
    target: str
    label: str = ""
    guessed: bool = False


def drawn(nodes: Sequence[Node], edges: Sequence[Edge], title: str) -> Drawing:
    """Each layer a column; within it a box lies near those that it was made from, so that few lines cross."""
    shown = list(nodes[:MOST])
    columns: dict[int, list[Node]] = {}
    for node in shown:
        columns.setdefault(node.depth, []).append(node)
    sources: dict[str, list[str]] = {}
    for edge in edges:
        sources.setdefault(edge.target, []).append(edge.source)
    row: dict[str, float] = {}
    places: dict[str, tuple[int, int]] = {}
    for column, depth in enumerate(sorted(columns)):
        several = sorted(columns[depth], key=lambda node: (_middle(sources.get(node.name, ()), row), node.name))
        for place, node in enumerate(several):
            row[node.name] = float(place)
            places[node.name] = (column * (WIDE + BETWEEN) + 8, place * (HIGH + ABOVE) + 8)
    boxes = tuple(Box(*places[n.name], _short(n.name), _short(n.label), f"{n.name}  {n.label}", n.kind) for n in shown)
    lines = tuple(_line(edge, places) for edge in edges if edge.source in places and edge.target in places)
    return Drawing(
        width=max((x for x, _ in places.values()), default=0) + WIDE + 8,
        height=max((y for _, y in places.values()), default=0) + HIGH + 8,
        boxes=boxes,
        lines=lines,
        left_out=len(nodes) - len(shown),
        title=title,
    )


def svg(drawing: Drawing) -> str:
    """A picture that stands on its own, in light and in dark."""
    return render("graph.svg", {"graph": drawing})


def dot(nodes: Sequence[Node], edges: Sequence[Edge], title: str) -> str:
    """The whole graph, for Graphviz."""
    lines = [f"digraph {_quoted(title)} {{", "  rankdir=LR;", "  node [shape=box];"]
    for node in nodes:
        label = f"{node.name} {node.label}".strip()
        lines.append(f"  {_quoted(node.name)} [label={_quoted(label)}];")
    for edge in edges:
        style = " [style=dashed]" if edge.guessed else ""
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def downstream_graph(answer: Mapping[str, object]) -> tuple[list[Node], list[Edge], str]:
    """What `audit downstream` answered, as a graph."""
    starts, made, between = answer["from"], answer["downstream"], answer["edges"]
    assert isinstance(starts, list)
    assert isinstance(made, list)
    assert isinstance(between, list)
    nodes = [Node(one["snapshot"], _label(one), 0, "start") for one in starts]
    if not nodes:
        nodes = [Node(str(answer["asked"]), "not known any more", 0, "start")]
        between = [*({"from": nodes[0].name, "to": one["snapshot"]} for one in made if one["depth"] == 1), *between]
    nodes += [Node(one["snapshot"], _label(one), one["depth"]) for one in made]
    edges = [Edge(edge["from"], edge["to"], guessed=bool(edge.get("guessed"))) for edge in between]
    return nodes, edges, f"What was made from {answer['asked']}"


def _label(one: Mapping[str, Mapping[str, str]]) -> str:
    return " ".join(filter(None, (str(one["operation"]), "by " + who if (who := one["writer"]["id"]) else "")))


def _middle(sources: Sequence[str], row: Mapping[str, float]) -> float:
    """Where the boxes that it was made from lie, on average."""
    there = [row[name] for name in sources if name in row]
    return sum(there) / len(there) if there else 0.0


def _line(edge: Edge, places: Mapping[str, tuple[int, int]]) -> Line:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    if x2 > x1:
        start, end = (x1 + WIDE, y1 + HIGH // 2), (x2, y2 + HIGH // 2)
        bend = BETWEEN // 2
        path = f"M{start[0]},{start[1]} C{start[0] + bend},{start[1]} {end[0] - bend},{end[1]} {end[0]},{end[1]}"
    else:
        # Back, as only a cycle goes: below the boxes, so that the line is seen.
        start, end = (x1 + WIDE // 2, y1 + HIGH), (x2 + WIDE // 2, y2 + HIGH)
        low = max(start[1], end[1]) + ABOVE
        path = f"M{start[0]},{start[1]} C{start[0]},{low} {end[0]},{low} {end[0]},{end[1]}"
    return Line(path, edge.label, (start[0] + end[0]) // 2, (start[1] + end[1]) // 2 - 4, edge.guessed)


def _short(text: str) -> str:
    """The end of a long name says more than its beginning."""
    return text if len(text) <= LONGEST else "…" + text[-(LONGEST - 1) :]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
