"""Store single experiences as readable memories of the type ``episode``.

The header contains ``importance``, ``success``, ``skills_used`` and ``agent``. The body has a list
under each of the headings Context, Actions and Outcomes, and prose under Reflection at the end,
which may contain headings. An outcome is a JSON object in backticks. A list entry that would be
parsed differently, such as one with several lines, is a JSON string in backticks.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memvault.errors import UsageError
from memvault.experience import search
from memvault.memories import create
from memvault.model import IMPORTANCE, Memory
from memvault.named_tuple import NamedTuple
from memvault.sanitize import replace_surrogates
from memvault.store.memory_store import MemoryStore
from memvault.vault.document import plain_text
from memvault.vault.markdown import headings

if TYPE_CHECKING:
    from memvault.recall.answer import RecallAnswer
    from memvault.recall.recall_engine import RecallEngine
    from memvault.secrets.detector import SecretDetector

TYPE = "episode"
ERROR = "action_error"
"""The ``type`` of an outcome that reports a failure."""
_MAX_ERROR_PERCENT = 30
"""An episode with at least this percentage of errors is unsuccessful."""
_TYPED = re.compile(r"([a-z][a-z_]*):\s*(?!//)(\S.*)", re.DOTALL)
_HEADING_ALIASES = {"situation": "context", "outcome": "outcomes"}
"""Alternative headings that people write."""
_LIST_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+")
_MAX_TITLE_PART = 40
"""Maximum number of characters of each half of a title."""
_KIND_NAMES = {"success": "went well", ERROR: "went wrong"}
_MAX_SKILLS = 200
_MAX_SKILL_CHARS = 200


class EpisodeInput(NamedTuple):
    """An experience reported by an agent."""

    context: Sequence[str] = ()
    actions: Sequence[str] = ()
    outcomes: Sequence[Mapping[str, Any]] = ()
    skills_used: Sequence[str] = ()
    reflection: str = ""
    importance: float = IMPORTANCE


class Episode(NamedTuple):
    """An episode as parsed from its file."""

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
    """Return whether an episode succeeded: it has outcomes, and fewer than 30% are errors."""
    errors = sum(outcome.get("type") == ERROR for outcome in outcomes)
    return bool(outcomes) and errors * 100 < len(outcomes) * _MAX_ERROR_PERCENT


def add(store: MemoryStore, story: EpisodeInput, agent: str) -> Memory:
    """Write an episode, with a title from its situation and its outcome.

    Raises:
        UsageError: the episode is empty, has too many skills or a skill name that is too long, or
            contains a value that cannot be written to a file.
    """
    skills = list(filter(None, (plain_text(name).strip() for name in story.skills_used)))
    if len(skills) > _MAX_SKILLS or any(len(skill) > _MAX_SKILL_CHARS for skill in skills):
        raise UsageError(
            f"An episode has at most {_MAX_SKILLS} skills of at most {_MAX_SKILL_CHARS} characters",
            "list only the skills that mattered",
        )
    body = body_of(story.context, story.actions, story.outcomes, story.reflection)
    if not body:
        raise UsageError("The episode is empty", "pass context, actions, outcomes or a reflection")
    header = {
        "importance": story.importance,
        "success": succeeded(story.outcomes),
        "skills_used": skills,
        "agent": agent,
    }
    return create.add(store, _title(story, store.settings.detector), body, TYPE, header)


def _title(story: EpisodeInput, detector: SecretDetector) -> str:
    """Return a short title: the situation, or else the actions, and the outcome."""
    situation = _first_meaningful((*story.context, *story.actions))
    latest_first = list(reversed(story.outcomes))
    outcome = _first_meaningful(map(_outcome_words, latest_first))
    outcome = outcome or _first_meaningful(map(_outcome_kind, latest_first))
    if situation and outcome:
        parts = (situation, outcome)
        return ": ".join(create.title_of(part, _MAX_TITLE_PART, detector) for part in parts)
    text = situation or outcome or _first_meaningful([story.reflection]) or "Episode"
    return create.title_of(text, detector=detector)


def _first_meaningful(texts: Iterable[str]) -> str:
    return next((text for text in texts if any(map(str.isalnum, text))), "")


def _outcome_words(outcome: Mapping[str, Any]) -> str:
    """Return the first string in an outcome other than its type."""
    values = (value for key, value in outcome.items() if key != "type")
    return _first_meaningful(value for value in values if isinstance(value, str))


def _outcome_kind(outcome: Mapping[str, Any]) -> str:
    kind = str(outcome.get("type", ""))
    return _KIND_NAMES.get(kind, kind.replace("_", " "))


def body_of(
    context: Sequence[str],
    actions: Sequence[str],
    outcomes: Sequence[Mapping[str, Any] | str],
    reflection: str,
) -> str:
    """Return an episode as markdown, without empty sections.

    An outcome may be a string such as ``decision: to stay``, which is parsed as a type and its
    text.

    Raises:
        UsageError: an outcome contains a value that JSON cannot represent.
    """
    lists = {
        "Context": [_list_entry(text) for text in context],
        "Actions": [_list_entry(text) for text in actions],
        "Outcomes": [
            _list_entry(outcome) if isinstance(outcome, str) else _in_backticks(_json(outcome))
            for outcome in outcomes
        ],
    }
    sections = {
        name: "\n".join(f"- {line}" for line in lines) for name, lines in lists.items() if lines
    }
    if reflection.strip():
        sections["Reflection"] = plain_text(reflection).strip()
    return "\n\n".join(f"## {name}\n\n{text}" for name, text in sections.items())


def summary(episode: Episode) -> str:
    """Return a summary of an episode in a few lines of plain text."""
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
    """Return the type and values of an outcome: strings unchanged, the rest as JSON."""
    details = [
        value if key == "text" and isinstance(value, str) else f"{key} {_json(value)}"
        for key, value in outcome.items()
        if key != "type"
    ]
    return ", ".join([str(outcome.get("type", "")), *details])


def episode_of(memory: Memory) -> Episode:
    """Parse an episode; sections that are missing or written differently are empty."""
    sections = _sections(memory.body)
    outcomes = [_parse_outcome(entry) for entry in _list_entries(sections["outcomes"])]
    header = memory.metadata
    success = header.get("success")
    return Episode(
        memory.mem_id,
        memory.path,
        memory.title,
        memory.created,
        [_entry_text(line) for line in _list_entries(sections["context"])],
        [_entry_text(line) for line in _list_entries(sections["actions"])],
        outcomes,
        texts(header.get("skills_used")),
        sections["reflection"].strip(),
        number(header.get("importance"), IMPORTANCE),
        success if isinstance(success, bool) else succeeded(outcomes),
        str(header.get("agent") or ""),
    )


def number(value: Any, otherwise: float) -> float:
    """Return a header value limited to 0..1, or the default if it is not a number."""
    return min(max(float(value), 0.0), 1.0) if type(value) in (int, float) else otherwise


def texts(value: object) -> list[str]:
    """Return a header value as a list of strings; a single value becomes a one-item list."""
    entries = value if isinstance(value, list) else [value] if value else []
    return [str(entry) for entry in entries]


def _list_entry(text: str) -> str:
    """Return a list entry, as JSON if it would be parsed differently."""
    plain = replace_surrogates(text)  # A file cannot contain a lone surrogate.
    same = plain_text(plain) == plain and "\t" not in plain
    if same and [_entry_text(line) for line in _list_entries(f"- {plain}\n")] == [plain]:
        return plain
    return _in_backticks(_json(plain))


def _json(value: Any) -> str:
    """Return a value as JSON on one line, with unprintable characters escaped.

    Raises:
        UsageError: JSON cannot represent the value.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"An outcome cannot be written as JSON: {error}",
            "use strings, numbers and lists of these",
        ) from error
    return "".join(
        char if char.isprintable() else json.dumps(char)[1:-1] for char in replace_surrogates(text)
    )


def _in_backticks(text: str) -> str:
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text}{ticks}"


def _sections(body: str) -> dict[str, str]:
    """Return the text under each heading; the reflection extends to the end."""
    sections: dict[str, str] = defaultdict(str)
    for (_, end, _, title), (stop, *_) in pairwise([*headings(body), (len(body), 0, 0, "")]):
        name = title.strip().casefold()
        name = _HEADING_ALIASES.get(name, name)
        if name == "reflection":
            sections[name] = body[end:]
            break
        sections[name] += f"{body[end:stop]}\n"
    return sections


def _list_entries(section: str) -> list[str]:
    """Return the entries in a list in their written form.

    A line without a list marker continues the entry above, unless it follows a blank line and is
    not indented; then it is a separate entry.
    """
    entries: list[list[str]] = []
    after_blank = True
    for line in section.splitlines():
        marker = _LIST_MARKER.match(line)
        text = line[marker.end() :].strip() if marker else line.strip()
        if text and not marker and entries and (not after_blank or line[0] in " \t"):
            entries[-1].append(text)
        elif text or marker:
            entries.append([text])
        after_blank = not line.strip()
    return list(filter(None, (" ".join(parts).strip() for parts in entries)))


def _entry_text(written: str) -> str:
    """Return the content of a list entry: a JSON string in backticks, or the text itself."""
    value = _entry_value(written) if written.startswith(('`"', '``"')) else None
    return value if isinstance(value, str) else written


def _parse_outcome(written: str) -> dict[str, Any]:
    value = _entry_value(written)
    if isinstance(value, dict):
        return value
    text = _entry_text(written)
    match = _TYPED.fullmatch(text)  # The format on the command line.
    return {"type": match[1], "text": match[2]} if match else {"type": "note", "text": text}


def _entry_value(written: str) -> Any:
    """Return the JSON value of a list entry; None if it is invalid or cannot be written again."""
    try:
        value = json.loads(written.strip("` "))
        return json.loads(
            replace_surrogates(json.dumps(value, ensure_ascii=False, allow_nan=False))
        )
    except (ValueError, RecursionError):
        return None


def similar(engine: RecallEngine, query: str, limit: int, min_importance: float) -> RecallAnswer:
    """Search for episodes that resemble a situation.

    Episodes with an importance below ``min_importance`` are left out.
    """
    return search.search(
        engine,
        query,
        TYPE,
        limit,
        lambda record: number(record.metadata.get("importance"), IMPORTANCE) >= min_importance,
    )
