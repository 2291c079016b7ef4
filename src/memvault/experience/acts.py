"""Find memories that name a file, a command or an error.

An act is something that an agent is about to do, or that has just failed: editing a file, running a
command, a command's error. A memory is relevant to it if one of its lines names the file or the
command, or has the constant part of the error, without its numbers, paths and times.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from memvault.experience.search import is_put_aside
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory

if TYPE_CHECKING:
    from memvault.recall.recall_engine import RecallEngine

Kind = Literal["path", "command", "error"]

_MAX_OUTPUT = 20_000
_MAX_LINE = 240
_CANDIDATES = 60
"""The number of memories in which a search for the act's words looks for its names."""
_ERROR = lazy_pattern(
    r"\b(?:error|exception|fatal|panic(?:ked)?|failed|failure|denied|refused|cannot|can't|unable|"
    r"not found|no such|undefined|unexpected|invalid|missing|timed? ?out|traceback)\b|"
    r"[A-Za-z](?:Error|Exception|Warning)\b",
    re.IGNORECASE,
)
_NAMED_ERROR = lazy_pattern(
    r"\b(?:[A-Za-z_][\w.]*(?:Error|Exception)|error\[?\w*\]?|fatal|panic)\b:?"
)
_NOISE = lazy_pattern(
    r"^\s*(?:at |File \"|\^|\||-+$|=+|~+|note:|help:|Traceback|During handling|warning:)|"
    r"\b(?:\d+ (?:passed|failed|errors?)\b|exit(?:ed)?(?: with)? (?:code|status)|"
    r"Process completed|ELIFECYCLE|Command failed)",
    re.IGNORECASE,
)
_VARIABLE = lazy_pattern(
    r"https?://\S+|(?:[A-Za-z]:)?[\w.@~-]*(?:[/\\][\w.@~-]+)+|0x[0-9a-f]+|\b[0-9a-f]{7,}\b|"
    r"\b\d[\w.:,-]*|\x1b\[[0-9;]*m",
    re.IGNORECASE,
)
"""Matches the parts of an error that differ between two occurrences: paths, numbers and hashes."""
_WORD = lazy_pattern(r"[^\W\d_]\w{2,}")
_SEPARATORS = lazy_pattern(r"&&|\|\||[;|\n]")
_ASSIGNMENT = lazy_pattern(r"\w+=\S*")
_WRAPPERS = frozenset(
    "sudo time nohup env exec nice uv poetry pipenv bundle npx pnpx bunx yarn pnpm run exec "
    "rtk command then do if".split()
)
_RUNNERS = frozenset("uv poetry pipenv bundle npx pnpx bunx".split())
"""Programs that run another program: ``uv run pytest``."""
_TRIVIAL = frozenset(
    "cd ls cat echo pwd head tail less grep rg find sed awk wc sort uniq which type true false "
    "mkdir touch cp mv rm ln chmod export set unset source test sleep printf date tree stat file "
    "diff xargs tee cut tr clear history whoami hostname env".split()
)
"""Programs about which a line rarely says anything that fits their next use."""
_COMMON_FILES = frozenset(
    "__init__.py index.ts index.js index.tsx index.jsx index.html main.py main.go main.rs main.ts "
    "mod.rs lib.rs readme.md package.json cargo.toml pyproject.toml go.mod makefile dockerfile "
    "setup.py config.py utils.py types.ts styles.css test.py conftest.py main.tf variables.tf "
    "outputs.tf build.gradle settings.py urls.py views.py models.py admin.py apps.py".split()
)
"""Base names that occur in many folders, so that a memory must name the folder as well."""


class ActMatch(NamedTuple):
    """A memory that names an act: the line that does, and how specific the match is, in 0..1."""

    memory: Memory
    line: str
    score: float


def error_line(output: str) -> str:
    """Return the line of a command's output that says most about its failure, or nothing."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output[-_MAX_OUTPUT:])
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line) and not _NOISE.search(line)]
    named = [line for line in errors if _NAMED_ERROR.search(line)]
    plain = [line for line in lines if not _NOISE.search(line)]
    chosen = next((group[-1] for group in (named, errors, plain) if group), "")
    return chosen[:_MAX_LINE]


def constant_words(error: str) -> list[str]:
    """Return the words of an error that stay the same when it occurs again, in order."""
    text = _VARIABLE.sub(" ", error)
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))


def command_names(command: str) -> list[tuple[str, ...]]:
    """Return the program and subcommands of each simple command in a shell command.

    ``cd app && uv run alembic upgrade head`` becomes ``[("alembic", "upgrade", "head")]``. Options,
    variables and trivial programs such as ``ls`` are left out.
    """
    names: list[tuple[str, ...]] = []
    for part in _SEPARATORS.split(command[:2_000]):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = part.split()
        words = _unwrapped([word for word in words if word])
        if not words:
            continue
        program = posixpath.basename(words[0])
        plain = [word for word in words[1:] if not word.startswith("-")]
        if program and program not in _TRIVIAL:
            names.append((program, *plain[:3]))
    return list(dict.fromkeys(names))


def is_same_command(command: str, other: str) -> bool:
    """Return whether the last simple commands of two shell commands are the same.

    Their programs must be equal, and their first arguments if both have any.
    """
    first, second = command_names(command)[-1:], command_names(other)[-1:]
    if not (first and second):
        return False
    return all(a == b for a, b in zip(first[0][:2], second[0][:2], strict=False))


def _unwrapped(words: list[str]) -> list[str]:
    """Return a command without variables and programs that only run another one."""
    while words:
        if _ASSIGNMENT.fullmatch(words[0]) or words[0] in ("sudo", "time", "nohup", "env", "exec"):
            words = words[1:]
        elif words[0] in _RUNNERS and len(words) > 1:
            words = words[2:] if words[1] in ("run", "exec") else words[1:]
        elif words[0] in ("python", "python3") and words[1:2] == ["-m"]:
            words = words[2:]
        else:
            break
    return words


def find(engine: RecallEngine, kind: Kind, text: str, limit: int) -> list[ActMatch]:
    """Return the memories that name a path, a command or an error, the most specific first.

    Archived memories, examples, and memories that are superseded, expired or not yet valid are left
    out.
    """
    from memvault.recall.answer import RecallRequest
    from memvault.recall.filters import Filters

    words = _query_words(kind, text)
    if not words:
        return []
    filters = Filters(passes=lambda record: not is_put_aside(record.metadata))
    request = RecallRequest(
        " ".join(words), "keyword", _CANDIDATES, filters, only_current=True, diverse=True
    )
    memories = [result.memory for result in engine.search(request).found]
    matches = [match for memory in memories if (match := _match(kind, text, memory)) is not None]
    matches.sort(key=lambda match: -match.score)  # A stable sort: equal matches keep their rank.
    return matches[:limit]


def _query_words(kind: Kind, text: str) -> list[str]:
    if kind == "error":
        return constant_words(text)[:24]
    if kind == "path":
        return re.findall(r"\w+", posixpath.basename(text.rstrip("/")))
    return list(dict.fromkeys(word for name in command_names(text) for word in name[:2]))[:12]


def _match(kind: Kind, text: str, memory: Memory) -> ActMatch | None:
    best: ActMatch | None = None
    for line in _lines(memory):
        score = _score(kind, text, line)
        if score > (best.score if best else 0.0):
            best = ActMatch(memory, line, score)
    return best


def _lines(memory: Memory) -> Iterator[str]:
    yield memory.title
    for key in ("files", "cites"):
        values = memory.metadata.get(key)
        yield from (str(value) for value in values if value) if isinstance(values, list) else ()
    for line in memory.body.splitlines():
        if line.strip():
            yield " ".join(line.split()).lstrip("-*# ")


def _score(kind: Kind, text: str, line: str) -> float:
    if kind == "path":
        return path_score(text, line)
    if kind == "command":
        return max((command_score(name, line) for name in command_names(text)), default=0.0)
    return error_score(constant_words(text), line)


def path_score(path: str, line: str) -> float:
    """Return how specifically a line names a file: 1 for its path, less for its name or folder."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if not parts:
        return 0.0
    best = 0.0
    for count in range(min(len(parts), 6), 0, -1):
        suffix = "/".join(parts[-count:])
        if _contains(line, suffix):
            is_common = parts[-1].lower() in _COMMON_FILES
            if count > 1 or (not is_common and "." in suffix):
                best = 1.0 if count > 1 or len(parts) == 1 else 0.8
            break
    if not best:
        for count in range(len(parts) - 1, 1, -1):  # Folders of at least two parts.
            for start in range(len(parts) - count):
                if _contains(line, "/".join(parts[start : start + count])):
                    return 0.5
    return best


def command_score(name: Sequence[str], line: str) -> float:
    """Return how specifically a line names a command: 1 for program and two subcommands."""
    for count in range(min(len(name), 3), 1, -1):
        if _contains(line, " ".join(name[:count])):
            return 1.0 if count > 2 else 0.8
    program = name[0]
    if ("." in program or "-" in program or "_" in program) and _contains(line, program):
        return 0.8  # A script such as deploy.sh is named by its file alone.
    return 0.4 if len(name) == 1 and _contains(line, program) else 0.0


def error_score(words: Sequence[str], line: str) -> float:
    """Return the share of an error's constant words that a line contains, weighted by length."""
    if len(words) < 2:
        return 0.0
    present = {word.lower() for word in _WORD.findall(line)}
    weights = {word: min(len(word), 12) for word in words}
    return sum(weight for word, weight in weights.items() if word in present) / sum(
        weights.values()
    )


def _contains(line: str, name: str) -> bool:
    """Return whether a line contains a name that is not a part of a longer one."""
    start = line.find(name)
    while start >= 0:
        before, after = line[start - 1 : start], line[start + len(name) : start + len(name) + 1]
        rest = line[start + len(name) : start + len(name) + 2]
        is_end = not (after.isalnum() or after in ("_", "-")) and not (
            after == "." and rest[1:2].isalnum()
        )
        if not (before.isalnum() or before in ("_", "-", ".")) and is_end:
            return True
        start = line.find(name, start + 1)
    return False


def shown(matches: Iterable[ActMatch], minimum: float) -> ActMatch | None:
    """Return the best match if it is specific enough to be shown without being asked for."""
    best = next(iter(matches), None)
    return best if best is not None and best.score >= minimum else None
