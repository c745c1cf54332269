"""The pages on error codes, from the same files as the manual's: what it means, what was not done, what to do."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

PACKED = Path(__file__).parent.parent / "error_docs"
CHECKOUT = Path(__file__).parents[4] / "docs" / "errors"
_CODE = re.compile(r"LW-[A-Z0-9]+-[0-9]{3}")
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^)]+)\)")


def error_doc(code: str) -> tuple[str, Markup] | None:
    """The title and the text of a code's page; None for what is no code of ours."""
    return _pages().get(code)


@cache
def _pages() -> dict[str, tuple[str, Markup]]:
    """Every page there is, by its code: whatever else anybody asks for is not remembered."""
    files = {path.stem: path for folder in (CHECKOUT, PACKED) for path in folder.glob("LW-*.md")}
    return {code: _page(path) for code, path in sorted(files.items()) if _CODE.fullmatch(code)}


def _page(path: Path) -> tuple[str, Markup]:
    head, _, body = path.read_text("utf-8").partition("\n")
    return head.lstrip("# ").strip(), as_html(body)


def as_html(text: str) -> Markup:
    """The little of Markdown that these pages are written in: headings, paragraphs, lists, code."""
    parts: list[Markup] = []
    for block in re.split(r"\n{2,}(?![^`]*\n```\n)", _fenced(text).strip()):
        if block.startswith("```"):
            parts.append(
                Markup('<pre tabindex="0"><code>{}</code></pre>').format(re.sub(r"^```\w*\n|\n?```$", "", block))
            )
        elif block.startswith("#"):
            parts.append(Markup("<h2>{}</h2>").format(block.lstrip("# ")))
        elif block.startswith("- "):
            items = re.split(r"\n(?=- )", block)
            parts.append(
                Markup("<ul>{}</ul>").format(_joined(Markup("<li>{}</li>").format(inline(i[2:])) for i in items))
            )
        elif block:
            parts.append(Markup("<p>{}</p>").format(inline(block)))
    return _joined(parts)


def _fenced(text: str) -> str:
    """Empty lines within code keep their place."""
    return re.sub(r"```.*?```", lambda found: found[0].replace("\n\n", "\n \n"), text, flags=re.DOTALL)


def _joined(parts: object) -> Markup:
    return Markup("\n").join(parts)  # type: ignore[arg-type]


def inline(text: str) -> Markup:
    """Code, bold words, and links to other codes; other links of the manual are told by their words."""
    found, at = Markup(""), 0
    for match in _INLINE.finditer(text):
        found += escape(text[at : match.start()])
        code, bold, words, target = match.groups()
        if code is not None:
            found += Markup("<code>{}</code>").format(code)
        elif bold is not None:
            found += Markup("<strong>{}</strong>").format(bold)
        elif name := _CODE.search(target):
            found += Markup('<a href="/errors/{}">{}</a>').format(name[0], words.strip("`"))
        else:
            found += escape(words.strip("`"))
        at = match.end()
    return found + escape(text[at:])
