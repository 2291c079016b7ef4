"""Extract facts and procedures with a user's command, using JSON lines as input and output."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memvault.consolidation.proposals import NewFact, NewProcedure, confidence_of, proposal_id
from memvault.errors import Refused, TimedOut, UsageError
from memvault.experience.episodes import Episode
from memvault.experience.procedures import clean_name
from memvault.experience.search import one_line
from memvault.experience.skill_tree import checked_id
from memvault.model import CATEGORY
from memvault.named_tuple import NamedTuple
from memvault.process import run
from memvault.sanitize import shorten
from memvault.vault.document import plain_text

_TIMEOUT = 600.0
_MAX_OUTPUT = 5_000_000
_MAX_SHOWN = 120
_KEYS = {
    "fact": {"fact", "confidence", "episodes", "category"},
    "procedure": {"procedure", "prompt", "episodes", "skillId"},
}


class RejectedLine(NamedTuple):
    """A rejected line of output: its number, its beginning, and the reason."""

    line: int
    text: str
    problem: str


class ExtractorOutput(NamedTuple):
    """The proposals of a command, and the rejected lines."""

    facts: list[NewFact]
    procedures: list[NewProcedure]
    refused: list[RejectedLine]


def extract(
    command: str,
    episodes: Sequence[Episode],
    seconds: float = _TIMEOUT,
    pause: Callable[[float], object] = time.sleep,
) -> ExtractorOutput:
    """Run a command without a shell, pass it the episodes, and read its proposals.

    Raises:
        UsageError: if the command is empty or cannot be parsed.
        TimedOut: if the command took too long and was killed.
        Refused: if the command failed or printed too much.
    """
    try:
        parts = shlex.split(command)
    except ValueError as error:
        message = f"The extractor command {command!r} cannot be parsed: {error}"
        raise UsageError(message, "close its quotes") from error
    if not parts:
        raise UsageError("The extractor is empty", "pass a command, such as 'python extract.py'")
    input_text = "".join(f"{_line_of(episode)}\n" for episode in episodes)
    ended = run(parts, input_text, seconds, _MAX_OUTPUT, pause=pause)
    if ended.timed_out:
        raise TimedOut(
            f"The extractor {parts[0]} did not finish within {seconds:g} s and was stopped",
            "give it fewer `--days` of episodes, or a faster model",
        )
    if ended.truncated:
        raise Refused(
            f"The extractor {parts[0]} printed more than {_MAX_OUTPUT:,} bytes and was stopped",
            "print only facts and procedures, one JSON object per line",
        )
    if ended.code:
        last_words = ended.last_error_line and f": {shorten(ended.last_error_line, _MAX_SHOWN)}"
        raise Refused(
            f"The extractor {parts[0]} exited with code {ended.code}{last_words}",
            "run it yourself with an episode as JSON on standard input",
        )
    return read_lines(ended.output, episodes)


def _line_of(episode: Episode) -> str:
    """Return an episode as a line of JSON for the extractor."""
    values = {
        re.sub(r"_(\w)", lambda match: match[1].upper(), name): value
        for name, value in episode._asdict().items()
        if name != "path"
    }
    return json.dumps(values, ensure_ascii=False)


def read_lines(output: str, episodes: Sequence[Episode]) -> ExtractorOutput:
    """Parse lines of JSON, skipping blank lines and rejecting invalid proposals."""
    episodes_by_id = {episode.episode_id: episode for episode in episodes}
    result = ExtractorOutput([], [], [])
    for number, line in enumerate(output.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            new = _proposal(line, episodes_by_id)
        except (ValueError, UsageError) as error:
            text = shorten(line.strip(), _MAX_SHOWN)
            result.refused.append(RejectedLine(number, text, str(error)))
        else:
            if isinstance(new, NewFact):
                result.facts.append(new)
            else:
                result.procedures.append(new)
    return result


def _proposal(line: str, episodes_by_id: Mapping[str, Episode]) -> NewFact | NewProcedure:
    """Parse one line.

    Raises: ValueError, UsageError: if it is not a valid proposal; the message gives the reason.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    kinds = [kind for kind in _KEYS if kind in value]
    if len(kinds) != 1:
        raise ValueError("it needs either fact or procedure")
    unknown = sorted(value.keys() - _KEYS[kinds[0]])
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} in a {kinds[0]}")
    ids = _sources(value.get("episodes"), episodes_by_id)
    if kinds[0] == "fact":
        text = _text(value, "fact")
        sure = _share(value.get("confidence", confidence_of(len(ids))))
        category = _line(value, "category") if "category" in value else CATEGORY
        return NewFact(proposal_id("fact", text), text, sure, ids, category)
    name, prompt = clean_name(_line(value, "procedure")), _text(value, "prompt")
    rate = sum(episodes_by_id[mem_id].success for mem_id in ids) / len(ids)
    skill = checked_id(_line(value, "skillId")) if "skillId" in value else ""
    proposal = proposal_id("procedure", name, prompt)
    return NewProcedure(proposal, name, prompt, round(rate, 4), ids, skill)


def _sources(value: Any, episodes_by_id: Mapping[str, Episode]) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("episodes must list the source episodes")
    for entry in value:
        if not isinstance(entry, str) or entry not in episodes_by_id:
            raise ValueError(f"{shorten(str(entry), _MAX_SHOWN)!r} is not one of the episodes")
    return tuple(sorted(set(value)))


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str) or not any(map(str.isalnum, text)):
        raise ValueError(f"{key} must be a string")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{key} is not valid Unicode") from None
    return plain_text(text).strip()


def _line(value: Mapping[str, Any], key: str) -> str:
    """Return a single-line text for a header or a title."""
    return one_line(_text(value, key), key)


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("confidence must be a number from 0 to 1")
    return float(value)
