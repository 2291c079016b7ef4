#!/usr/bin/env python3
"""Draw the plots of the performance page from its figures, as SVG for light and dark pages.

    python scripts/draw_performance.py

Each file contains a digest of its figures.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

import performance_page as page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#010203"
"""The color of text and lines, which is replaced with the page's text color."""
COLORS = (
    *("#3b82c4", "#d9822b", "#2f9e69", "#d1495b", "#8e6fc9"),
    *("#8a8a8a", "#b59b1f", "#36a2a8", "#c25f9f"),
)
STYLE = """<style>
svg { color: #24292f; background: transparent }
@media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }
</style>
"""
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "memvault",  # make output reproducible
    "font.family": "sans-serif",
    "font.size": 11,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    ),
}
MULTIPLES = "CPU, multiples of python -c pass"


def growth(figures: page.Figures) -> Figure:
    """Draw the commands' multiples of ``python -c pass`` against the number of memories."""
    figure, (axes,) = _axes(1, 4.4)
    series = {}
    for name in page.COMMANDS:
        for vectors in (page.DEEP, page.QUICK) if name == page.RECALL else (page.QUICK,):
            records = [figures.record(size, vectors) for size in figures.sizes_with(vectors)]
            label = f"{name}, {vectors} vectors" if name == page.RECALL else name
            series[label] = [page.multiple(record, record["cold"][name]) for record in records]
    _draw_lines(axes, figures.sizes, series)
    axes.set_ylabel(MULTIPLES)
    figure.legend(loc="outside right center")
    return figure


def index(figures: page.Figures) -> Figure:
    """Draw the seconds and peak memory of a first index and a recall by number of memories."""
    figure, (left, right) = _axes(2, 3.8)
    sizes = figures.sizes_with(page.QUICK)
    records = [figures.record(size, page.QUICK) for size in sizes]
    seconds = {
        label: [record["index"][what] / 1e3 for record in records]
        for what, label in (("wall", "wall time"), ("cpu", "CPU time"))
    }
    peaks = {
        "first index, largest process": [record["index"]["peak"] for record in records],
        "resident process": [record["resident megabytes"] for record in records],
        "recall": [record["cold"][page.RECALL]["peak"] for record in records],
    }
    for axes, series, title in (
        (left, seconds, "First index, seconds"),
        (right, peaks, "Peak memory, MB"),
    ):
        _draw_lines(axes, sizes, series)
        axes.set_title(title)
        axes.legend()
    return figure


def budget(figures: page.Figures) -> Figure:
    """Draw the milliseconds of cold commands by part, at the largest size with deep vectors."""
    figure, (axes,) = _axes(1, 3.6)
    parts = figures.record(figures.sizes_with(page.DEEP)[-1])["parts"]
    names = page.COMMANDS[::-1]
    left = [0.0] * len(names)
    for part in parts[page.RECALL]:
        widths = [parts[name][part] for name in names]
        axes.barh(names, widths, left=left, label=part, height=0.65)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_xlabel("ms of CPU")
    figure.legend(loc="outside right center")
    return figure


def resident(figures: page.Figures) -> Figure:
    """Draw commands as separate processes and through the resident process."""
    figure, (axes,) = _axes(1, 4.2)
    record = figures.record(figures.sizes_with(page.DEEP)[-1])
    names = (*page.COMMANDS, page.HOOK)
    series = {
        label: {name: page.multiple(record, record[way][name]) for name in names}
        for way, label in (("cold", "cold process"), ("resident", "resident process"))
    }
    _draw_bars(axes, names, series)
    axes.set_xlabel(MULTIPLES)
    axes.legend(loc="lower right")
    return figure


def peers(figures: page.Figures) -> Figure:
    """Draw the start and a cold search of memvault and its peers."""
    figure, (axes,) = _axes(1, 4.8)
    programs = figures.peers["programs"]
    series = {
        label: {
            program["name"]: page.peer_multiple(figures, program, what)
            for program in programs
            if what in program
        }
        for what, label in (("start", "start"), ("search", "a cold search"))
    }
    axes.set_xscale("log")
    _draw_bars(axes, [program["name"] for program in programs], series)
    axes.margins(x=0.1)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlabel(f"{MULTIPLES}, 1,000 memories")
    axes.legend(loc="upper right")
    return figure


def _axes(count: int, height: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(8.4, height), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for each in axes:
        each.set_prop_cycle(color=COLORS)
    return figure, axes


def _draw_lines(axes: Axes, sizes: Sequence[int], series: Mapping[str, Sequence[float]]) -> None:
    """Draw values by size; a series may lack the largest sizes."""
    for label, values in series.items():
        axes.plot(sizes[: len(values)], values, marker="o", label=label)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("memories")


def _draw_bars(axes: Axes, names: Sequence[str], series: Mapping[str, Mapping[str, float]]) -> None:
    """Draw two bars for each name, from top to bottom, labeled with their values."""
    for offset, (label, values) in zip((-0.19, 0.19), series.items(), strict=True):
        known = [number for number, name in enumerate(names) if name in values]
        places = [number + offset for number in known]
        bars = axes.barh(places, [values[names[n]] for n in known], height=0.36, label=label)
        axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def svg(figure: Figure, digest: str) -> str:
    """Return a figure as SVG whose text and lines use the page's text color."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Source": digest})
    head, start, rest = file.getvalue().partition("<svg ")
    opening, end, body = rest.partition(">\n")
    return f"{head}{start}{opening}{end}{STYLE}{body.replace(INK, 'currentColor')}"


def main() -> None:
    """Draw all plots."""
    figures = page.load()
    with mpl.rc_context(SETTINGS):
        for draw in (growth, index, budget, resident, peers):
            path = page.FILE.with_name(f"{draw.__name__}.svg")
            path.write_text(svg(draw(figures), figures.digest), "utf-8")


if __name__ == "__main__":
    main()
