"""Episodes: what happened once, as memories of the type ``episode`` that a person can read.

The header holds ``importance``, ``success``, ``skills_used`` and ``agent``; the
body a list under each of the headings Context, Actions and Outcomes, and at the
end a text under Reflection, which may hold headings of its own. An outcome is
one JSON object in backticks; so is, as a JSON string, an entry of a list that
would not read back as itself, such as one of several lines.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault.errors import UsageError
from memvault.memories import create, experience_search
from memvault.model import IMPORTANCE, Memory
from memvault.store.memory_store import MemoryStore
from memvault.vault.document import plain_text, replace_surrogates
from memvault.vault.markdown import headings

if TYPE_CHECKING:
    from memvault.recall.answer import RecallAnswer
    from memvault.recall.engine import RecallEngine

TYPE = "episode"
ERROR = "action_error"
"""The ``type`` of an outcome that is a failure."""
_ERRORS = 30
"""The percentage of errors from which on an episode went badly."""
_TYPED = re.compile(r"([a-z][a-z_]*):\s*(?!//)(\S.*)", re.DOTALL)
_ALSO = {"situation": "context", "outcome": "outcomes"}
"""Other words for the headings that people use."""
_MARK = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+")
_LONGEST_PART = 40
"""Characters of a title's half."""
_IN_WORDS = {"success": "went well", ERROR: "went wrong"}
_MOST_SKILLS = 200
_LONGEST_SKILL = 200


class EpisodeInput(NamedTuple):
    """What an agent tells of an experience."""

    context: Sequence[str] = ()
    actions: Sequence[str] = ()
    outcomes: Sequence[Mapping[str, Any]] = ()
    skills_used: Sequence[str] = ()
    reflection: str = ""
    importance: float = IMPORTANCE


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
    return bool(outcomes) and errors * 100 < len(outcomes) * _ERRORS


def add(store: MemoryStore, story: EpisodeInput, agent: str) -> Memory:
    """Write an episode; its title says the situation and the outcome in its own words.

    Raises:
        UsageError: it says nothing, or something that no file can hold.
    """
    skills = list(filter(None, (plain_text(name).strip() for name in story.skills_used)))
    if len(skills) > _MOST_SKILLS or any(len(skill) > _LONGEST_SKILL for skill in skills):
        raise UsageError(
            f"An episode has at most {_MOST_SKILLS} skills of at most {_LONGEST_SKILL} characters",
            "name the skills that mattered",
        )
    body = body_of(story.context, story.actions, story.outcomes, story.reflection)
    if not body:
        raise UsageError(
            "The episode says nothing", "give context, actions, outcomes or a reflection"
        )
    header = {
        "importance": story.importance,
        "success": succeeded(story.outcomes),
        "skills_used": skills,
        "agent": agent,
    }
    return create.add(store, _title(story), body, TYPE, header)


def _title(story: EpisodeInput) -> str:
    """Say in few words what the situation was, or else what was done, and how it came out."""
    situation = _first((*story.context, *story.actions))
    told = list(reversed(story.outcomes))
    outcome = _first(map(_words, told)) or _first(map(_kind, told))
    if situation and outcome:
        return ": ".join(create.title_of(text, _LONGEST_PART) for text in (situation, outcome))
    return create.title_of(situation or outcome or _first([story.reflection]) or "Episode")


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if any(map(str.isalnum, text))), "")


def _words(outcome: Mapping[str, Any]) -> str:
    """Return what an outcome says beside its type."""
    told = (value for key, value in outcome.items() if key != "type")
    return _first(value for value in told if isinstance(value, str))


def _kind(outcome: Mapping[str, Any]) -> str:
    kind = str(outcome.get("type", ""))
    return _IN_WORDS.get(kind, kind.replace("_", " "))


def body_of(
    context: Sequence[str],
    actions: Sequence[str],
    outcomes: Sequence[Mapping[str, Any]],
    reflection: str,
) -> str:
    """Write an episode as markdown; what is empty is left out.

    Raises:
        UsageError: an outcome holds what JSON cannot spell.
    """
    lists = {
        "Context": [_line(text) for text in context],
        "Actions": [_line(text) for text in actions],
        "Outcomes": [_code(_json(outcome)) for outcome in outcomes],
    }
    sections = {
        name: "\n".join(f"- {line}" for line in lines) for name, lines in lists.items() if lines
    }
    if reflection.strip():
        sections["Reflection"] = plain_text(reflection).strip()
    return "\n\n".join(f"## {name}\n\n{text}" for name, text in sections.items())


def summary(episode: Episode) -> str:
    """Tell an episode in a few lines of plain text."""
    sections = {
        "Context": "; ".join(episode.context),
        "Actions": "; ".join(episode.actions),
        "Skills": ", ".join(episode.skills_used),
        "Outcomes": "; ".join(map(_outcome_text, episode.outcomes)),
        "Reflection": episode.reflection,
    }
    lines = [f"{name}: {text}" for name, text in sections.items() if text]
    return "\n".join(lines) or episode.title


def _outcome_text(outcome: Mapping[str, Any]) -> str:
    """Return an outcome's type and what else it says: its text as it is, the rest as JSON."""
    details = [
        value if key == "text" and isinstance(value, str) else f"{key} {_json(value)}"
        for key, value in outcome.items()
        if key != "type"
    ]
    return ", ".join([str(outcome.get("type", "")), *details])


def episode_of(memory: Memory) -> Episode:
    """Read an episode; what a person left out or wrote otherwise is empty."""
    sections = _sections(memory.body)
    outcomes = [_outcome(entry) for entry in _entries(sections["outcomes"])]
    given = memory.metadata
    success = given.get("success")
    return Episode(
        memory.mem_id,
        memory.path,
        memory.title,
        memory.created,
        [_entry(line) for line in _entries(sections["context"])],
        [_entry(line) for line in _entries(sections["actions"])],
        outcomes,
        texts(given.get("skills_used")),
        sections["reflection"].strip(),
        number(given.get("importance"), IMPORTANCE),
        success if isinstance(success, bool) else succeeded(outcomes),
        str(given.get("agent") or ""),
    )


def number(value: Any, otherwise: float) -> float:
    """Return a header's number in 0..1, or what stands for an invalid one."""
    return min(max(float(value), 0.0), 1.0) if type(value) in (int, float) else otherwise


def texts(value: object) -> list[str]:
    """Return a header's list as texts; a single value is a list of one."""
    entries = value if isinstance(value, list) else [value] if value else []
    return [str(entry) for entry in entries]


def _line(text: str) -> str:
    """Write an entry of a list as it is, or as JSON where it would read back otherwise."""
    plain = replace_surrogates(text)  # no file can hold half a character
    same = plain_text(plain) == plain and "\t" not in plain
    if same and [_entry(line) for line in _entries(f"- {plain}\n")] == [plain]:
        return plain
    return _code(_json(plain))


def _json(value: Any) -> str:
    """Write a value as JSON on one line, what is not printable as escapes.

    Raises:
        UsageError: JSON has no spelling for it.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"An outcome cannot be kept as JSON: {error}", "use texts, numbers and lists of these"
        ) from error
    return "".join(
        char if char.isprintable() else json.dumps(char)[1:-1] for char in replace_surrogates(text)
    )


def _code(text: str) -> str:
    marks = "``" if "`" in text else "`"
    return f"{marks}{text}{marks}"


def _sections(body: str) -> dict[str, str]:
    """Return what stands under each of the headings; the reflection goes on to the end."""
    found: dict[str, str] = defaultdict(str)
    for (_, end, _, title), (stop, *_) in pairwise([*headings(body), (len(body), 0, 0, "")]):
        name = title.strip().casefold()
        name = _ALSO.get(name, name)
        if name == "reflection":
            found[name] = body[end:]
            break
        found[name] += f"{body[end:stop]}\n"
    return found


def _entries(section: str) -> list[str]:
    """Return the entries of a list, as they are written.

    A line without a mark belongs to the entry above; behind a blank line and
    not indented it is an entry of its own.
    """
    entries: list[list[str]] = []
    apart = True
    for line in section.splitlines():
        mark = _MARK.match(line)
        text = line[mark.end() :].strip() if mark else line.strip()
        if text and not mark and entries and (not apart or line[0] in " \t"):
            entries[-1].append(text)
        elif text or mark:
            entries.append([text])
        apart = not line.strip()
    return list(filter(None, (" ".join(parts).strip() for parts in entries)))


def _entry(written: str) -> str:
    """Return what an entry of a list says: a JSON string in backticks, or the text itself."""
    value = _value(written) if written.startswith(('`"', '``"')) else None
    return value if isinstance(value, str) else written


def _outcome(written: str) -> dict[str, Any]:
    value = _value(written)
    if isinstance(value, dict):
        return value
    text = _entry(written)
    named = _TYPED.fullmatch(text)  # as on the command line
    return {"type": named[1], "text": named[2]} if named else {"type": "note", "text": text}


def _value(written: str) -> Any:
    """Return the JSON value that an entry holds, or None where a result could not repeat it."""
    try:
        value = json.loads(written.strip("` "))
        return json.loads(
            replace_surrogates(json.dumps(value, ensure_ascii=False, allow_nan=False))
        )
    except (ValueError, RecursionError):
        return None


def similar(engine: RecallEngine, query: str, limit: int, least: float) -> RecallAnswer:
    """Find the episodes that are like a situation and matter enough; else as ``search``."""
    return experience_search.search(
        engine,
        query,
        TYPE,
        limit,
        lambda record: number(record.metadata.get("importance"), IMPORTANCE) >= least,
    )
