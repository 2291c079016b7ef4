"""Lines for people of what the tools for active and long-term memory return."""

from __future__ import annotations

import json
from collections.abc import Callable

from memvault.cli.lines import Line, Result, quoted

__all__ = ["BRAIN_FORMS"]


def _evicted(found: Result) -> list[Line]:
    return [[(f"   evicted: {mem_id}", "yellow")] for mem_id in found.get("evicted", ())]


def _create(found: Result) -> list[Line]:
    line: Line = [("Created ", ""), (found["memId"], "bold"), (f"  {found['filePath']}", "dim")]
    return [line, *_evicted(found)]


def _mutate(found: Result) -> list[Line]:
    return [
        [("Changed ", ""), (found["memId"], "bold")],
        [(f"Before: revision {found['previousRevision']}", "dim")],
        *_evicted(found),
    ]


def _load(found: Result) -> list[Line]:
    if "memories" in found:
        return _similar(found)
    end = found["offset"] + found["length"]
    said = f"  {found['offset']} to {end} of {found['totalLength']} characters, "
    out: list[Line] = [
        [(found["memId"], "bold"), (f"{said}{found['tokens']} tokens", "dim")],
        *_evicted(found),
    ]
    if "cutAt" in found:
        limits = {
            "maximum": f"the most that one load takes, {found['maximum']} characters",
            "budget": f"the budget, {found['budget']} tokens",
        }
        said = f"   cut at {limits[found['cutAt']]}; --offset {end} loads on"
        out.append([(said, "yellow")])
    return [*out, [("", "")], *quoted(found["content"])]


def _similar(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["memories"]:
        metadata = ", ".join(
            f"{key} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for key, value in entry["metadata"].items()
            if value not in ("", []) and key not in ("title", "created", "modified")
        )
        out.append([(f"{entry['similarity']:.2f}  ", "green"), (entry["id"], "bold")])
        out.append([(f"   {metadata}", "dim")])
        out += quoted(entry["text"])
    return [*out, [(found["message"], "")]] if "message" in found else out


def _search(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["results"]:
        score = (f"{entry['score']:.2f}  ", "green")
        out.append([score, (entry["memId"], "bold"), (f"  {entry['title']}", "")])
        out += quoted(entry["snippet"], "dim")
    return [*out, [(found["message"], "")]] if "message" in found else out


def _active(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["memories"]:
        part = entry["length"] < entry["totalLength"]
        end = entry["offset"] + entry["length"]
        said = f"  {entry['offset']} to {end} of {entry['totalLength']}" if part else ""
        tokens = (f"{entry['tokens']:>6}  ", "green")
        out.append([tokens, (entry["memId"], "bold"), (f"  {entry['title']}{said}", "")])
        out += [[(f"        {line}", "")] for line in entry.get("content", "").splitlines()]
    used, budget, left = found["tokens"], found["budget"], found["left"]
    return [*out, [(f"{used} of {budget} tokens, {left} left", "dim")]]


def _delete(found: Result) -> list[Line]:
    out: list[Line] = [[("Moved to the trash: ", ""), (name, "bold")] for name in found["deleted"]]
    return [*out, *([(f"Not there: {name}", "yellow")] for name in found["missing"])]


def _context(found: Result) -> list[Line]:
    return [[(line, "")] for line in found["context"].splitlines()]


BRAIN_FORMS: dict[str, Callable[[Result], list[Line]]] = {
    "memory_create": _create,
    "memory_load": _load,
    "memory_evict": lambda found: [[("Evicted ", ""), (found["memId"], "bold")]],
    "memory_mutate": _mutate,
    "memory_search": _search,
    "memory_active": _active,
    "memory_save": lambda found: [[("Saved ", ""), (found["id"], "bold")]],
    "memory_delete": _delete,
    "context": _context,
}
