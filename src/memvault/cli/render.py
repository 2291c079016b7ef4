"""Results as lines for people; a line is a list of (text, style) pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memvault.cli.forms.agents import WORK_FORMS
from memvault.cli.forms.brain import BRAIN_FORMS
from memvault.cli.forms.consolidation import CONSOLIDATION_FORMS
from memvault.cli.forms.experience import EXPERIENCE_FORMS
from memvault.cli.forms.tools import TOOL_FORMS
from memvault.cli.lines import Line, Result, quoted

__all__ = ["details", "lines"]


def lines(name: str, found: Result) -> list[Line]:
    """Return a result's lines; a tool without a form of its own gets keys and values."""
    return _FORMS.get(name, _plain)(found)


def details(found: Result) -> list[Line]:
    """Return the lines for what a failure says besides its message."""
    gone: list[Line] = [[(f"   gone already: {path}", "")] for path in found.get("files", ())]
    refused: list[Line] = [
        [(f"   line {entry['line']}: {entry['problem']}", ""), (f"  {entry['text']}", "dim")]
        for entry in found.get("refused", ())
    ]
    return [*gone, *refused, *(_mention(entry) for entry in found.get("candidates", ()))]


def _plain(found: Result) -> list[Line]:
    out: list[Line] = []
    for key, value in found.items():
        if key in ("success", "warnings"):
            continue
        if key == "output" and isinstance(value, str):  # what a vault's program has printed
            out.append([(f"{key}:", "dim")])
            out += [[(f"   {line}", "")] for line in value.splitlines()]
            continue
        out.append([(f"{key}: ", "dim"), (_flat(value), "")])
    return out


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_flat(entry)}" for key, entry in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(_flat(entry) for entry in value) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _heading(entry: Result, score: bool) -> Line:
    line: Line = [(entry["title"], "bold")]
    if score:
        line.append((f"  {entry['score']:.2f}", "green"))
    line.append((f"  {entry['memoryType']}", "cyan"))
    if entry["tags"]:
        line.append((f"  {' '.join('#' + tag for tag in entry['tags'])}", "magenta"))
    return line


def _whereabouts(entry: Result) -> Line:
    return [(f"   {entry['memId']}  {entry['filePath']}  {entry['modified'][:10]}", "dim")]


def _mention(entry: Result) -> Line:
    line: Line = [("   ", "")]
    if "score" in entry:
        line.append((f"{entry['score']:.2f}  ", "green"))
    if "similarity" in entry:
        line.append((f"{entry['similarity']:.2f}  ", "green"))
    return [
        *line,
        (entry.get("title", ""), "bold"),
        (f"  {entry['memId']}  {entry['filePath']}", "dim"),
    ]


def _recall(found: Result) -> list[Line]:
    out: list[Line] = []
    for number, entry in enumerate(found["memories"], start=1):
        out.append([(f"{number}. ", "dim"), *_heading(entry, True)])
        out.append(_whereabouts(entry))
        if "content" in entry:
            out += quoted(entry["content"])
        else:
            out += quoted(entry["snippet"])
        if "why" in entry:
            out.append([(f"   why: {_flat(entry['why'])}", "yellow")])
    if "message" in found:
        out.append([(found["message"], "")])
    return out


def _list(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["memories"]:
        out += [_heading(entry, False), _whereabouts(entry)]
        if "problem" in entry:
            out.append([(f"   problem: {entry['problem']}", "red")])
    shown, total = found["count"], found["total"]
    noun = "memory" if total == 1 else "memories"
    out.append([(f"{shown} of {total} {noun}" if shown < total else f"{total} {noun}", "dim")])
    return out


def _types(found: Result) -> list[Line]:
    width = max(len(entry["name"]) for entry in found["types"]) + 2
    out: list[Line] = [
        [
            (f"{entry['name']:<{width}}", "cyan"),
            (f"{entry['count']:>5}  ", "green"),
            (entry["description"], ""),
        ]
        for entry in found["types"]
    ]
    out.append([(f"What fits none of them is {found['fallbackType']}", "dim")])
    return out


def _remember(found: Result) -> list[Line]:
    done = "Updated" if found["isUpdate"] else "Remembered"
    out: list[Line] = [
        [(f"{done} ", ""), (found["memId"], "bold"), (f"  {found['filePath']}", "dim")]
    ]
    if found["similar"]:
        out.append([("Nearest that were there already:", "dim")])
        out += [_mention(entry) for entry in found["similar"]]
    return out


def _compound(found: Result) -> list[Line]:
    return [
        [("Compounded ", ""), (found["memId"], "bold"), (f"  {found['filePath']}", "dim")],
        [(f"Before: revision {found['previousRevision']}", "dim")],
    ]


def _forget(found: Result) -> list[Line]:
    if "deletedFiles" in found:
        out: list[Line] = [[(f"   {path}", "dim")] for path in found["files"]]
        return [[(f"Moved to the trash: {found['deletedFiles']}", "bold")], *out]
    out = [_mention(entry) for entry in found["candidates"]]
    if "message" in found:
        return [*out, [(found["message"], "")]]
    return [
        [(f"Would forget {len(found['candidates'])}:", "bold")],
        *out,
        [
            ("Nothing is gone yet; confirm with ", ""),
            (f"--confirm {found['confirmToken']}", "bold"),
        ],
    ]


def _restore(found: Result) -> list[Line]:
    if "trash" not in found:
        return [[("Restored ", ""), (found["memId"], "bold"), (f"  {found['filePath']}", "dim")]]
    if not found["trash"]:
        return [[("The trash is empty", "")]]
    return [[*_mention(entry), (f"  {entry['discarded'][:19]}", "dim")] for entry in found["trash"]]


def _show(found: Result) -> list[Line]:
    out: list[Line] = [_heading(found, False), _whereabouts(found)]
    out.append([(f"   etag {found['etag']}, revisions kept: {len(found['revisions'])}", "dim")])
    if "problem" in found:
        out.append([(f"   problem: {found['problem']}", "red")])
    return [*out, [("", "")], *([(line, "")] for line in found["content"].strip("\n").splitlines())]


def _status(found: Result) -> list[Line]:
    out = _plain(
        {key: value for key, value in found.items() if key not in ("problems", "settings", "sizes")}
    )
    sizes = ", ".join(f"{key} {size / 1024:,.0f} KiB" for key, size in found["sizes"].items())
    out.append([("sizes: ", "dim"), (sizes, "")])
    for key, entry in found["settings"].items():
        out.append([(f"{key}: ", "dim"), (f"{_flat(entry['value'])} ({entry['from']})", "")])
    for entry in found.get("problems", ()):
        out.append([(f"problem: {entry['filePath']}: {entry['problem']}", "red")])
    return out


def _models(found: Result) -> list[Line]:
    return [
        *(_model(entry, found["inUse"]) for entry in found["models"]),
        [("Cross-encoders for recall --rerank, chosen with model use NAME --for rerank:", "dim")],
        *(_model(entry, found["rerankerInUse"]) for entry in found["rerankers"]),
    ]


def _model(entry: Result, used: str) -> Line:
    dimension = f"{entry['dimension']} dimensions, " if "dimension" in entry else ""
    return [
        ("* " if entry["name"] == used else "  ", "green"),
        (entry["name"], "bold"),
        (f"  {dimension}{entry['sizeInGb']:g} GB", "dim"),
        (f"  {entry['description']}", ""),
    ]


def _init(found: Result) -> list[Line]:
    out: list[Line] = [[(f"{found['vault']} is a vault", "bold")]]
    out += [[(f"   {path}", "dim")] for path in found["created"]]
    if found["memories"]:
        out.append([(f"{found['memories']} markdown files in it are memories now, untouched", "")])
    return out


_FORMS: dict[str, Callable[[Result], list[Line]]] = {
    **BRAIN_FORMS,
    **CONSOLIDATION_FORMS,
    **EXPERIENCE_FORMS,
    **WORK_FORMS,
    **TOOL_FORMS,
    "memory_recall": _recall,
    "memory_list": _list,
    "memory_list_types": _types,
    "memory_remember": _remember,
    "memory_compound": _compound,
    "memory_forget": _forget,
    "memory_restore": _restore,
    "memory_show": _show,
    "vault_status": _status,
    "model_list": _models,
    "init": _init,
}
