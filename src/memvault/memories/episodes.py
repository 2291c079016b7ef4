"""Episodes: what happened once, as memories of the type ``episode`` that a person can read.

The header holds ``importance``, ``success``, ``skills_used`` and ``agent``; the
body a list under each of the headings Context, Actions and Outcomes, and a text
under Reflection. An outcome is one JSON object in backticks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memvault.model import Memory
from memvault.vault.codec import plain_text
from memvault.vault.markdown import headings

__all__ = ["ERROR", "TYPE", "Episode", "body_of", "episode_of", "number", "succeeded"]

TYPE = "episode"
ERROR = "action_error"
"""The ``type`` of an outcome that is a failure."""
_MOST_ERRORS = 0.3
_HEADINGS = ("Context", "Actions", "Outcomes", "Reflection")


class Episode(NamedTuple):
    """One experience, as its file says."""

    episode_id: str
    path: str
    title: str
    created: str
    context: list[str]
    actions: list[str]
    outcomes: list[dict[str, Any]]
    skills_used: list[str]
    reflection: str
    importance: float
    success: bool
    agent: str


def succeeded(outcomes: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether an episode went well: it has outcomes, and fewer than 30 % are errors."""
    errors = sum(outcome.get("type") == ERROR for outcome in outcomes)
    return bool(outcomes) and errors < len(outcomes) * _MOST_ERRORS


def body_of(
    context: Sequence[str],
    actions: Sequence[str],
    outcomes: Sequence[Mapping[str, Any]],
    reflection: str,
) -> str:
    """Write an episode as markdown; what is empty is left out."""
    told = [json.dumps(outcome, ensure_ascii=False) for outcome in outcomes]
    lists = (context, actions, [_code(text) for text in told])
    parts = [
        f"## {heading}\n\n" + "\n".join(f"- {_line(entry)}" for entry in entries)
        for heading, entries in zip(_HEADINGS, lists, strict=False)
        if entries
    ]
    if reflection.strip():
        parts.append(f"## {_HEADINGS[-1]}\n\n{plain_text(reflection).strip()}")
    return "\n\n".join(parts)


def episode_of(memory: Memory) -> Episode:
    """Read an episode; what a person left out or wrote otherwise is empty."""
    sections = _sections(memory.body)
    outcomes = [_outcome(entry) for entry in _entries(sections.get("outcomes", ""))]
    given = memory.metadata
    success = given.get("success")
    return Episode(
        memory.mem_id,
        memory.path,
        memory.title,
        memory.created,
        _entries(sections.get("context", "")),
        _entries(sections.get("actions", "")),
        outcomes,
        _texts(given.get("skills_used")),
        sections.get("reflection", "").strip(),
        number(given.get("importance"), 0.5),
        success if isinstance(success, bool) else succeeded(outcomes),
        str(given.get("agent") or ""),
    )


def number(value: Any, otherwise: float) -> float:
    """Return a header's number in 0..1, or what stands for one that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    return min(max(float(value), 0.0), 1.0)


def _texts(value: Any) -> list[str]:
    entries = value if isinstance(value, list) else [value] if value else []
    return [str(entry) for entry in entries]


def _line(text: str) -> str:
    return " ".join(plain_text(text).split())


def _code(text: str) -> str:
    marks = "``" if "`" in text else "`"
    return f"{marks}{text}{marks}"


def _sections(body: str) -> dict[str, str]:
    """Return what stands under each of the headings."""
    marks = list(headings(body))
    ends = [start for start, *_ in marks[1:]] + [len(body)]
    return {
        name.strip().casefold(): body[end:stop]
        for (_, end, _, name), stop in zip(marks, ends, strict=True)
    }


def _entries(section: str) -> list[str]:
    """Return the entries of a list; lines that are indented belong to the entry above."""
    entries: list[str] = []
    for line in section.splitlines():
        if line[:2] in ("- ", "* ", "+ "):
            entries.append(line[2:].strip())
        elif entries and line.strip():
            entries[-1] += f" {line.strip()}"
    return [entry for entry in entries if entry]


def _outcome(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text.strip("` "))
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"type": "note", "text": text}
