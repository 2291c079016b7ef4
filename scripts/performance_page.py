"""Write the generated parts of the performance page and the README from the benchmark figures.

Times are the CPU time of all processes involved, because wall time depends on other load; multiples
are relative to ``python -c pass`` in the same loop.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "docs/development/performance/figures.json"
PASS = "python -c pass"
RECALL, KEYWORD, REMEMBER = "recall", "recall --mode keyword", "remember"
HOOK = "hook prompt"
CHANGED = "recall after a change"
COMMANDS = (RECALL, KEYWORD, "show", "list --limit 5", REMEMBER, "goals get")
DEEP, QUICK = "deep", "quick"
_BUSY = 1.3
_SLOW = 1_000.0
"""Milliseconds of CPU time above which a command counts as slow."""

_LEAST_GROWTH = 1e-4
"""Growth below this, in milliseconds per memory, may be caused by other work on the machine."""

_LEAST_MILLISECONDS = 10.0
"""The minimum growth of a command, in milliseconds, for comparing its parts."""


class Figures:
    """The benchmark's measurements; sizes are numbers of memories."""

    def __init__(self, text: str) -> None:
        self.digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
        self._results: dict[str, Any] = json.loads(text)
        keys = [key.split() for key in self._results if key != "peers"]
        self.sizes = sorted({int(size) for size, _ in keys})

    def sizes_with(self, vectors: str) -> list[int]:
        """Return the sizes measured with quick or deep vectors."""
        return [size for size in self.sizes if f"{size} {vectors}" in self._results]

    def record(self, size: int, vectors: str = DEEP) -> dict[str, Any]:
        """Return the measurements at a size, with quick vectors if there are no deep ones."""
        record: dict[str, Any] = (
            self._results.get(f"{size} {vectors}") or self._results[f"{size} {QUICK}"]
        )
        return record

    @property
    def peers(self) -> dict[str, Any]:
        """Return the programs measured together with memvault."""
        peers: dict[str, Any] = self._results["peers"]
        return peers


def load() -> Figures:
    """Read the committed figures."""
    return Figures(FILE.read_text("utf-8"))


def multiple(record: dict[str, Any], done: dict[str, float]) -> float:
    """Return a command's CPU time relative to ``python -c pass`` in the same loop."""
    return float(done["cpu"] / record["cold"][PASS]["cpu"])


def page_parts(figures: Figures) -> dict[str, str]:
    """Return the generated parts of docs/development/performance.md by name."""
    return {
        "machine": _machine(figures),
        "growth": _growth(figures),
        "budget": _budget(figures),
        "resident": _resident(figures),
        "limits": _limits(figures),
        "peers": _peers(figures),
    }


def readme_lines(figures: Figures) -> str:
    """Return three lines about speed for the README."""
    size, largest = figures.sizes_with(DEEP)[-1], figures.sizes[-1]
    record, index = figures.record(size), figures.record(size, QUICK)["index"]
    cold, warm = record["cold"][RECALL], record["resident"][RECALL]
    most = figures.record(largest, QUICK)
    used = f"{_seconds(index['cpu'])} of CPU time and {index['peak']:.0f} MB"
    big, kept = most["cold"][RECALL], most["resident"][RECALL]
    return f"""\
- A recall in {size:,} memories takes {cold["cpu"]:.0f} ms, {multiple(record, cold):.0f} times \
`python -c pass`. Through the resident process,
  which the second recall starts, it takes {warm["cpu"]:.0f} ms, \
{multiple(record, warm):.1f} times `python -c pass`.
- In {largest:,} memories, without transformer vectors, it takes {big["cpu"]:.0f} ms \
and {big["peak"]:.0f} MB, or {kept["cpu"]:.0f} ms
  through that process.
- A first index of {size:,} memories takes {used} in its largest process."""


def _machine(figures: Figures) -> str:
    lines = [f"{figures.record(figures.sizes[-1])['machine']}.", ""]
    for vectors in (QUICK, DEEP):
        for size in figures.sizes_with(vectors):
            record = figures.record(size, vectors)
            base = record["cold"][PASS]
            waited = base["wall"] / base["cpu"]
            busy = f", on a busy machine ({waited:.1f} × CPU time)" if waited > _BUSY else ""
            lines.append(
                f"- {size:,} with {vectors} vectors: {record['date']}, {record['rounds']} rounds, "
                f"`python -c pass` {base['wall']:.1f} ms{busy}."
            )
    return "\n".join(lines)


def _growth(figures: Figures) -> str:
    rows = []
    for name in COMMANDS:
        for vectors in (DEEP, QUICK) if name in (RECALL, REMEMBER) else (QUICK,):
            shown = functools.partial(_cold_cell, name)
            rows.append([f"`{name}`{_vectors(name, vectors)}", *_cells(figures, vectors, shown)])
    for vectors in (QUICK, DEEP):
        rows += [
            [f"first index{what}", *_cells(figures, vectors, shown)]
            for what, shown in {
                f", {vectors} vectors, wall time": lambda record: _seconds(record["index"]["wall"]),
                ", CPU time": lambda record: _seconds(record["index"]["cpu"]),
                ", its largest process": lambda record: f"{record['index']['peak']:.0f} MB",
            }.items()
        ]
        peaks = _cells(figures, vectors, lambda record: f"{record['cold'][RECALL]['peak']:.0f} MB")
        rows.append([f"peak of `recall`{_vectors(RECALL, vectors)}", *peaks])
    return _table(["", *[f"{size:,}" for size in figures.sizes]], rows)


def _cold_cell(name: str, record: dict[str, Any]) -> str:
    return _cell(record, record["cold"][name])


def _cells(figures: Figures, vectors: str, shown: Callable[[dict[str, Any]], str]) -> list[str]:
    """Return a cell for each size, empty if the size was not measured."""
    known = figures.sizes_with(vectors)
    return [shown(figures.record(size, vectors)) if size in known else "" for size in figures.sizes]


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1e3:.1f} s"


def _vectors(name: str, vectors: str) -> str:
    return f", {vectors} vectors" if name in (RECALL, REMEMBER) else ""


def _budget(figures: Figures) -> str:
    size = figures.sizes_with(DEEP)[-1]
    parts = figures.record(size)["parts"]
    names = (RECALL, KEYWORD, REMEMBER)
    rows = [[part, *[f"{parts[name][part]:.0f}" for name in names]] for part in parts[RECALL]]
    rows.append(["**sum**", *[f"**{sum(parts[name].values()):.0f}**" for name in names]])
    return _table([f"ms of CPU time at {size:,}", *[f"`{name}`" for name in names]], rows)


def _resident(figures: Figures) -> str:
    size = figures.sizes_with(DEEP)[-1]
    record = figures.record(size)
    rows = [
        [f"`{name}`", *[_cell(record, record[way][name]) for way in ("cold", "resident")]]
        for name in (*COMMANDS, HOOK)
    ]
    rows.insert(1, [CHANGED, "", _cell(record, record["resident"][CHANGED])])
    return _table([f"at {size:,}, deep vectors", "cold", "resident"], rows)


def _limits(figures: Figures) -> str:
    sizes = figures.sizes_with(QUICK)
    first, last = figures.record(sizes[0], QUICK), figures.record(sizes[-1], QUICK)
    rows = []
    for name in COMMANDS:
        cells = []
        for way in ("cold", "resident"):
            least, most = first[way][name]["cpu"], last[way][name]["cpu"]
            growth = (most - least) / (sizes[-1] - sizes[0])
            if growth < _LEAST_GROWTH:
                cells += ["–", "–"]
            else:
                slow = sizes[0] + (_SLOW - least) / growth
                digits = len(str(int(slow))) - 2
                cells += [f"{growth * 1e3:.1f} ms", f"{round(slow, -digits):,.0f}"]
        rows.append(
            [f"`{name}`", *cells, _growing_parts(first["parts"][name], last["parts"][name])]
        )
    heads = ["quick vectors", "cold, per 1,000", "1 s at", "resident, per 1,000", "1 s at"]
    return _table([*heads, "growing parts, cold"], rows)


def _growing_parts(least: dict[str, float], most: dict[str, float]) -> str:
    """Return the parts that account for a fifth of the growth or more, largest first."""
    growth = {part: most[part] - least[part] for part in most}
    whole = sum(growth.values())
    if whole < _LEAST_MILLISECONDS:
        return "–"
    parts = sorted(growth, key=lambda part: -growth[part])
    return ", ".join(part for part in parts if growth[part] >= whole / 5)


def _peers(figures: Figures) -> str:
    rows = []
    least = figures.peers["pass"][
        "peak"
    ]  # the benchmark's own memory is included in its child processes' peaks
    for program in figures.peers["programs"]:
        times = [
            f"{peer_multiple(figures, program, what):.1f}" if what in program else ""
            for what in ("start", "search")
        ]
        index = _seconds(program["index"]["cpu"]) if "index" in program else ""
        peak = max(program[what]["peak"] for what in ("start", "search") if what in program)
        rows.append(
            [
                program["name"],
                program["does"],
                *times,
                index,
                f"{'< ' if peak <= least else ''}{peak:.0f} MB",
            ]
        )
    return _table(["", "", "start, ×", "search, ×", "index, CPU", "peak"], rows)


def peer_multiple(figures: Figures, program: dict[str, Any], what: str) -> float:
    """Return the CPU time of a peer's start or search relative to ``python -c pass``."""
    return float(program[what]["cpu"] / figures.peers["pass"]["cpu"])


def _cell(record: dict[str, Any], done: dict[str, float]) -> str:
    return f"{multiple(record, done):.1f}× · {done['cpu']:,.0f} ms"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["--:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *rows))
