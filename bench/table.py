"""Print the tables of speed.py: measured values, next to their targets."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

__all__ = ["Finished", "Row", "Target", "caveat", "cells", "milliseconds", "summary", "table"]

TARGET_SIZE = 10_000
BUSY = 1.3
HEADS = ["what", "median", "min", "max", "cpu", "x pass", "peak MB", "target", "verdict"]


class Target(NamedTuple):
    """The maximum value; ``unit`` is s, MB, or x for multiples of ``python -c pass``."""

    most: float
    unit: str = "s"
    any_size: bool = False


class Finished(NamedTuple):
    """A finished process: wall and CPU seconds, peak memory in MB, output."""

    seconds: float
    cpu: float
    peak: float
    output: str


class Row(NamedTuple):
    """A table row: values in ``unit``, and the processes behind it, if any."""

    what: str
    values: list[float]
    unit: str = "s"
    processes: list[Finished] | None = None
    target: Target | None = None

    @classmethod
    def of(cls, what: str, processes: list[Finished], target: Target | None = None) -> Row:
        """Create a row from processes that did the same work."""
        return cls(what, [done.seconds for done in processes], "s", processes, target)


def summary(done: list[Finished]) -> dict[str, float]:
    """Return medians of wall and CPU time in ms, and the largest peak in MB."""
    return {
        "wall": milliseconds(median(entry.seconds for entry in done)),
        "cpu": milliseconds(median(entry.cpu for entry in done)),
        "peak": round(max(entry.peak for entry in done), 1),
    }


def milliseconds(seconds: float) -> float:
    """Format seconds as milliseconds with one decimal."""
    return round(seconds * 1e3, 1)


def cells(row: Row, one: float, own_peak: float, size: int) -> list[str]:
    """Return a row's cells; ``one`` is the median of ``python -c pass``.

    A process's peak is never below ``own_peak``, the peak of its parent.
    """
    middle = median(row.values)
    digits = 1 if row.unit == "MB" or middle >= 10 else 3
    spread = [min(row.values), max(row.values)] if len(row.values) > 1 else []
    numbers = [f"{value:.{digits}f} {row.unit}" for value in (middle, *spread)]
    cpu = times = peak = ""
    if row.processes:
        most = max(done.peak for done in row.processes)
        cpu = f"{median(done.cpu for done in row.processes):.{digits}f} s"
        times = f"{middle / one:.1f}"
        peak = f"< {own_peak:.0f}" if most <= own_peak else f"{most:.0f}"
    target = verdict = ""
    if row.target and (row.target.any_size or size == TARGET_SIZE):
        limit, unit, _ = row.target
        reached = {"s": middle, "MB": max(row.values), "x": middle / one}[unit] <= limit
        target, verdict = f"<= {limit:g} {unit}", "reached" if reached else "missed"
    return [row.what, *(*numbers, "", "")[:3], cpu, times, peak, target, verdict]


def caveat(row: Row) -> str:
    """Return a note if a row's processes, which only compute, had to wait for the CPU."""
    waited = row.processes and median(done.seconds / done.cpu for done in row.processes)
    if not waited or waited < BUSY:
        return ""
    return f"\n\nThe machine was busy: {row.what} took {waited:.1f} times its CPU time. Try again."


def table(lines: list[list[str]], markdown: bool) -> str:
    """Format rows of cells as plain columns, or as a markdown table."""
    if markdown:
        rule = ["---", *["---:"] * 6, "---", "---"]
        whole = (HEADS, rule, *lines)
        return "\n".join(f"| {' | '.join(cell.strip() for cell in line)} |" for line in whole)
    widths = [max(len(line[place]) for line in (HEADS, *lines)) for place in range(len(HEADS))]
    out = []
    for line in (HEADS, *lines):
        aligned = [
            cell.rjust(width) if 1 <= place <= 6 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        out.append("  ".join(aligned).rstrip())
    return "\n".join(out)
