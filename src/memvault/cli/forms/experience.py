"""Lines for people of what the tools for experience and skills return."""

from __future__ import annotations

from collections.abc import Callable

from memvault.cli.lines import Line, Result, quoted

__all__ = ["EXPERIENCE_FORMS"]


def _message(found: Result) -> list[Line]:
    return [[(found["message"], "")]] if "message" in found else []


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _stored(key: str) -> Callable[[Result], list[Line]]:
    def form(found: Result) -> list[Line]:
        done = "Updated" if found.get("isUpdate") else "Stored"
        return [[(f"{done} ", ""), (found[key], "bold"), (f"  {found['filePath']}", "dim")]]

    return form


def _episode(found: Result) -> list[Line]:
    went = ("it went well", "green") if found["success"] else ("it did not go well", "yellow")
    (line,) = _stored("episodeId")(found)
    return [line, [("   ", ""), went]]


def _episodes(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["episodes"]:
        said = entry["metadata"]
        line: Line = [(entry["episodeId"], "bold"), (f"  {said['timestamp']}", "dim")]
        if "distance" in entry:
            line.append((f"  distance {entry['distance']:.2f}", "green"))
        line.append(("  went well", "green") if said["success"] else ("  went badly", "yellow"))
        out += [[*line, (f"  importance {said['importance']:g}", "")], *quoted(entry["summary"])]
    return [*out, *_message(found)]


def _facts(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["facts"]:
        said = f"{entry['category']}, confidence {entry['confidence']:g}, from {entry['source']}"
        out.append(
            [
                (entry["factId"], "bold"),
                (f"  distance {entry['distance']:.2f}", "green"),
                (f"  {said}, recalled {_times(entry['accessCount'])}", "dim"),
            ]
        )
        out += quoted(entry["factText"])
    return [*out, *_message(found)]


def _update(found: Result) -> list[Line]:
    return [
        [("Updated ", ""), (found["factId"], "bold"), (f"  {found['filePath']}", "dim")],
        [(f"Before: revision {found['previousRevision']}", "dim")],
    ]


def _rate(entry: Result) -> str:
    return f"  success rate {entry['successRate']:.3g}, used {_times(entry['usageCount'])}"


def _procedures(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["procedures"]:
        out.append([(entry["name"], "bold"), (_rate(entry), "green")])
        out += quoted(entry["prompt"])
    return [*out, *_message(found)]


def _outcome(found: Result) -> list[Line]:
    return [[(_rate(found).strip(), "")]]


def _memory(found: Result) -> list[Line]:
    out: list[Line] = []
    for heading, texts in found["memoryContext"].items():
        if texts:
            out.append([(f"{heading.capitalize()}:", "bold")])
        for text in texts:
            first, *more = text.splitlines() or [""]
            out.append([(f" - {first}", "")])
            out += quoted("\n".join(more))
    return [*out, *_message(found)]


def _branches(found: Result) -> list[Line]:
    (branches,) = (found[key] for key in ("categories", "subcategories") if key in found)
    out: list[Line] = []
    for entry in branches:
        name = next(value for key, value in entry.items() if key != "skills")
        noun = "skill" if entry["skills"] == 1 else "skills"
        out.append([(name, "bold"), (f"  {entry['skills']} {noun}", "dim")])
    return [*out, *_message(found)]


def _skills(found: Result) -> list[Line]:
    out: list[Line] = [
        [(entry["skillId"], "bold"), (f"  {entry['name']}", ""), (_rate(entry), "dim")]
        for entry in found["skills"]
    ]
    return [*out, *_message(found)]


def _skill(found: Result) -> list[Line]:
    entry = found["skillResult"]
    chance = f"  expected success {entry['expectedSuccess']:.3g}"
    return [
        [(entry["skillId"], "bold"), (f"  {entry['name']}", ""), (chance, "green")],
        *quoted(entry["prompt"]),
    ]


EXPERIENCE_FORMS: dict[str, Callable[[Result], list[Line]]] = {
    "store_episode": _episode,
    "recall_similar_experience": _episodes,
    "get_recent_episodes": _episodes,
    "get_episodes_with_skill": _episodes,
    "store_fact": _stored("factId"),
    "recall_fact": _facts,
    "update_fact": _update,
    "store_procedure": _stored("procedureId"),
    "recall_procedure": _procedures,
    "update_success_rate": _outcome,
    "recall_memory": _memory,
    "list_skill_categories": _branches,
    "list_subcategories": _branches,
    "list_skills": _skills,
    "use_skill": _skill,
}
