"""Lines for people of what consolidation proposes or has done."""

from __future__ import annotations

from collections.abc import Callable

from memvault.cli.lines import Line, Result

__all__ = ["CONSOLIDATION_FORMS"]


def _consolidated(found: Result) -> list[Line]:
    done = found["applied"]
    out = [
        *_section("Facts written" if done else "Facts", found["facts"], _fact),
        *_section("Procedures written" if done else "Procedures", found["procedures"], _procedure),
        *_section("Merged" if done else "Facts that say the same", found.get("merged", ()), _merge),
        *_section("Archived" if done else "For the archive", found["forgotten"], _forgotten),
        *_section("Contradictions", found.get("contradictions", ()), _contradiction),
        *_section("Refused lines of the extractor", found.get("refused", ()), _refused),
    ]
    if "message" in found:
        out.append([(found["message"], "")])
    elif not found["applied"] and any(
        found.get(key) for key in ("facts", "procedures", "merged", "forgotten")
    ):
        out.append([("Nothing is written yet; ", ""), ("memvault consolidate --apply", "bold")])
        out[-1].append((" does it", ""))
    return out


def _section(
    heading: str, entries: list[Result], form: Callable[[Result], list[Line]]
) -> list[Line]:
    if not entries:
        return []
    return [[(f"{heading}:", "bold")], *(line for entry in entries for line in form(entry))]


def _fact(entry: Result) -> list[Line]:
    return [
        [("   ", ""), (f"{entry['confidence']:.2f}  ", "green"), (_line(entry["factText"]), "")],
        *([(f"         also: {text}", "dim")] for text in entry.get("wordings", ())),
        _source(entry),
    ]


def _procedure(entry: Result) -> list[Line]:
    return [
        [("   ", ""), (f"{entry['successRate']:.2f}  ", "green"), (entry["name"], "")],
        *([(f"      {line}", "")] for line in entry["prompt"].splitlines()),
        _source(entry),
    ]


def _line(text: str) -> str:
    return " ".join(text.split())


def _merge(entry: Result) -> list[Line]:
    return [
        [("   stays     ", "dim"), (_line(entry["keptText"]), ""), (f"  {entry['keptId']}", "dim")],
        [
            ("   archived  ", "dim"),
            (_line(entry["archivedText"]), ""),
            (f"  {entry['archivedId']}", "dim"),
        ],
    ]


def _forgotten(entry: Result) -> list[Line]:
    return [
        [
            ("   ", ""),
            (entry["title"], ""),
            (f"  importance {entry['importance']:g}  {entry['memId']}", "dim"),
            (f"  {entry['modified'][:10]}", "dim"),
        ]
    ]


def _contradiction(entry: Result) -> list[Line]:
    return [
        [("   but " if place else "   ", ""), (said["text"], ""), (_ids(said["memIds"]), "dim")]
        for place, said in enumerate(entry["statements"])
    ]


def _ids(mem_ids: list[str]) -> str:
    return f"  {', '.join(mem_ids)}"


def _refused(entry: Result) -> list[Line]:
    return [[(f"   line {entry['line']}: {entry['problem']}", "red"), (f"  {entry['text']}", "")]]


def _source(entry: Result) -> Line:
    made = next((f"{entry[key]}  " for key in ("factId", "procedureId") if key in entry), "")
    return [(f"      {made}from {', '.join(entry['episodes'])}", "dim")]


CONSOLIDATION_FORMS: dict[str, Callable[[Result], list[Line]]] = {
    "consolidate_memories": _consolidated,
}
