"""Render the pages from values. Jinja2 escapes every value that is not marked as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from memvault import clock, sanitize
from memvault.tools.core.render import rounded_down
from memvault.web.addresses import Addresses

if TYPE_CHECKING:
    from jinja2 import Environment

_MOST_LINKED = 200
_BAR_WIDTH, _BAR_HEIGHT = 600, 120


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("memvault.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["day"] = lambda text: clock.local(str(text or ""))
    made.filters["minute"] = lambda text: clock.local(str(text or ""), 16).replace("T", " ")
    made.filters["seen"] = lambda text: sanitize.escape_text(str(text))
    made.filters["rounded_down"] = rounded_down
    made.filters["address"] = lambda text: quote(str(text), safe="")
    return made


def render(name: str, to: Addresses | None = None, **values: Any) -> str:
    """Return a page from the template with a name; ``to`` has the URLs for its links."""
    return _environment().get_template(f"{name}.html").render(to=to, **values)


def as_html(text: str) -> Any:
    """Mark a string as HTML that needs no escaping."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  # made by markdown_html


def asset(name: str) -> str:
    """Return the style sheet or the script of the pages."""
    return (files("memvault.web") / "assets" / name).read_text("utf-8")


def map_values(graph: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for the page of a map: its counts, and the most linked memories."""
    degree = [0] * len(graph["nodes"])
    for source, target in graph["edges"]:
        degree[source] += 1
        degree[target] += 1
    order = sorted(range(len(degree)), key=lambda number: -degree[number])[:_MOST_LINKED]
    listed = [(graph["nodes"][number], degree[number]) for number in order]
    return {"nodes": listed, "count": len(degree), "edges": len(graph["edges"])}


def bars(counts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rectangles of a bar chart for a list of names with counts."""
    most = max((entry["count"] for entry in counts), default=0) or 1
    width = _BAR_WIDTH / max(1, len(counts))
    return [
        {
            "x": round(number * width + 1, 1),
            "y": round(_BAR_HEIGHT * (1 - entry["count"] / most), 1),
            "width": round(max(1.0, width - 2), 1),
            "height": round(_BAR_HEIGHT * entry["count"] / most, 1),
            "label": f"{entry['name']}: {entry['count']:,}",
        }
        for number, entry in enumerate(counts)
    ]
