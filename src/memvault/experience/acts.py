"""Find memories that mention a file, a command or an error.

An act is an edit that an agent is about to make, a command that it is about to run, or the error of
a command that has just failed. A memory is relevant if one of its lines mentions the file or the
command, or contains the constant part of the error: its words without numbers, paths and times.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Literal

from memvault.experience.search import is_put_aside
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.repository import citations

if TYPE_CHECKING:
    from memvault.recall.recall_engine import RecallEngine

Kind = Literal["path", "symbols", "command", "error"]

_MAX_OUTPUT = 20_000
_MAX_LINE = 240
_MAX_ERROR_LINES = 8
_MAX_WORDS = 40
_MIN_ERROR_WORDS = 3
_NAMED, _FOLDER, _PROGRAM, _OTHER_USE = 0.8, 0.4, 0.4, 0.3
"""Scores of a line that mentions a file without its folder, or a command without its arguments;
only the folder; only the program; or the program with another subcommand.
"""
SURE = 0.45
"""The minimum score of a line that is shown to an agent without a request."""
_FAILED = lazy_pattern(
    r"\bexit(?:ed)?[ _-]?(?:with )?(?:code|status)?[\"': =]{1,4}-?[1-9]\d*", re.IGNORECASE
)
_CANDIDATES = 60
"""The maximum number of search results that are checked for the names in an act."""
_ERROR = lazy_pattern(
    r"\b(?:error|exception|fatal|panic(?:ked)?|failed|failure|denied|refused|cannot|can't|unable|"
    r"not found|no such|undefined|unexpected|invalid|missing|timed? ?out|traceback)\b|"
    r"[A-Za-z](?:Error|Exception|Warning)\b",
    re.IGNORECASE,
)
_NAMED_ERROR = lazy_pattern(r"(?:Error|Exception)\b|\berror(?:\[\w{1,40}\])?:|\b(?:fatal|panic)\b")
_NOISE = lazy_pattern(
    r"^\s*(?:at |File \"|\^|\||-+$|=+|~+|note:|help:|Traceback|During handling|warning:)|"
    r"\b(?:\d+ (?:passed|failed|errors?)\b|exit(?:ed)?(?: with)? (?:code|status)|"
    r"Process completed|ELIFECYCLE|Command failed)",
    re.IGNORECASE,
)
_VARIABLE = lazy_pattern(
    r"https?://\S++|(?<![\w.@~/\\:-])(?:[A-Za-z]:)?[\w.@~-]*+(?:[/\\][\w.@~-]++)++|0x[0-9a-f]++|"
    r"\b[0-9a-f]{7,}+\b|\b\d[\w.:,-]*+|\x1b\[[0-9;]*+m",
    re.IGNORECASE,
)
"""Matches the parts of an error that differ between two occurrences: paths, numbers and hashes."""
_PANIC = lazy_pattern(r"(panicked at [^\n]{1,200}:)\n")
_COLOR = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]")
_WORD = lazy_pattern(r"[^\W\d_]\w{2,}")
_SEPARATORS = lazy_pattern(r"&&|\|\||[;|\n]")
_PROGRAM_NAME = lazy_pattern(r"\w[\w.@+-]*")
_ASSIGNMENT = lazy_pattern(r"\w+=\S*")
FIXED_BY = " - fixed by: "
"""Separates an error from its fix in a line of an imported session."""
_PREFIXES = frozenset("sudo time nohup env exec command".split())
"""Words before a command that only change how it runs."""
_RUNNERS = frozenset("uv poetry pipenv pdm hatch bundle pnpm yarn npx pnpx bunx".split())
"""Programs that can run another program, such as ``uv run pytest`` and ``npx eslint``."""
_INTERPRETERS = frozenset("python python3 node ruby perl php bash sh zsh deno bun Rscript".split())
"""Programs whose first argument is the script that matters."""
_CODE = lazy_pattern(r"`([^`\n]{2,200})`")
_QUOTED = lazy_pattern(r"`([^`\n]{8,200})`|[\"“]([^\"“”\n]{8,200})[\"”]")
_IDENTIFIER = lazy_pattern(r"[A-Za-z_][\w.]{4,}")
_READING = frozenset(
    "cd ls cat echo pwd head tail less grep rg find awk wc sort uniq which type true false test "
    "sleep printf date tree stat file diff cut tr clear history whoami hostname env".split()
)
_TRIVIAL = _READING.union(
    "mkdir touch cp mv rm ln chmod sed export set unset source xargs tee".split()
)
"""Programs with so many uses that a line about one use rarely applies to the next."""
_COMMON_FILES = frozenset(
    "__init__.py index.ts index.js index.tsx index.jsx index.html main.py main.go main.rs main.ts "
    "mod.rs lib.rs readme.md package.json cargo.toml pyproject.toml go.mod makefile dockerfile "
    "setup.py config.py utils.py types.ts styles.css test.py conftest.py main.tf variables.tf "
    "outputs.tf build.gradle settings.py urls.py views.py models.py admin.py apps.py".split()
)
"""Base names that occur in many folders, so a memory must also mention the folder."""


class ActMatch(NamedTuple):
    """A memory that mentions an act, its matching line, and how specific the match is, in 0..1."""

    memory: Memory
    line: str
    score: float


def error_line(output: str) -> str:
    """Return the line of a command's output that best describes its failure, or an empty string."""
    return next(iter(error_lines(output)), "")


def error_lines(output: str) -> list[str]:
    """Return the lines of a command's output that may describe its failure, the best first."""
    text = _COLOR.sub("", output[-_MAX_OUTPUT:])
    text = _PANIC.sub(r"\1 ", text)  # Rust prints the message on the next line.
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line) and not _NOISE.search(line)]
    named = [line for line in errors if _NAMED_ERROR.search(line)]
    plain = [line for line in lines if not _NOISE.search(line)]
    ordered = [*reversed(named), *reversed(errors), *reversed(plain[-1:])]
    return [line[:_MAX_LINE] for line in dict.fromkeys(ordered)][:_MAX_ERROR_LINES]


def has_failed(output: str) -> bool:
    """Return whether the output of a command reports a nonzero exit code."""
    return _FAILED.search(output[:500] + output[-500:]) is not None


def output_text(value: object) -> str:
    """Return the text in a tool's output: a string, or nested lists and objects of strings."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        entries = [
            f"{key}: {entry}" if isinstance(entry, (int, float)) else output_text(entry)
            for key, entry in value.items()
        ]
        return "\n".join(filter(None, entries))
    return "\n".join(map(output_text, value)) if isinstance(value, list) else ""


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
        if _PROGRAM_NAME.fullmatch(program) and program not in _TRIVIAL:
            names.append((program, *plain[:3]))
    return list(dict.fromkeys(names))


def may_change(command: str) -> bool:
    """Return whether a shell command may change anything and so may fix an error."""
    programs = (part.split()[:1] for part in _SEPARATORS.split(command))
    return any(words and words[0] not in _READING for words in programs)


def is_same_command(command: str, other: str) -> bool:
    """Return whether the last simple commands of two shell commands are the same.

    Their programs must be equal, and so must their first arguments if both have any.
    """
    first, second = command_names(command)[-1:], command_names(other)[-1:]
    if not (first and second):
        return False
    return all(a == b for a, b in zip(first[0][:2], second[0][:2], strict=False))


def _unwrapped(words: list[str]) -> list[str]:
    """Return a command without variables, runners and interpreters."""
    while len(words) > 1:
        first, second = words[0], words[1]
        if _ASSIGNMENT.fullmatch(first) or first in _PREFIXES:
            words = words[1:]
        elif first in _RUNNERS and second in ("run", "exec"):
            words = words[2:]
        elif first in ("npx", "pnpx", "bunx"):
            words = words[1:]
        elif first in _INTERPRETERS:
            rest = words[2:] if second in ("-m", "run") else words[1:]
            if not rest or rest[0].startswith("-"):
                break
            words = rest
        else:
            break
    return [word for word in words if not _ASSIGNMENT.fullmatch(word)]


def symbols_in(change: str) -> list[str]:
    """Return the identifiers in changed lines that are likely to occur in only a few places."""
    names = _IDENTIFIER.findall(change)
    parts = [part for name in names for part in (name, name.rpartition(".")[2])]
    return list(dict.fromkeys(name for name in parts if _is_distinctive(name)))[:40]


def _is_distinctive(name: str) -> bool:
    inner = name.strip("_")[1:]
    return len(name) >= 6 and ("_" in inner or any(char.isupper() for char in inner))


def find(engine: RecallEngine, kind: Kind, text: str, limit: int) -> list[ActMatch]:
    """Return the memories that mention a path, a command or an error, the most specific first.

    Archived memories, examples, and memories that are superseded, expired or not yet valid are left
    out.
    """
    from memvault.recall.answer import RecallRequest
    from memvault.recall.filters import Filters

    words = _query_words(kind, text)
    if not words:
        return []
    filters = Filters(passes=lambda record: not is_put_aside(record.metadata))
    request = RecallRequest(" ".join(words), "keyword", _CANDIDATES, filters, only_current=True)
    score = _scorer(kind, text)
    cites = kind in ("path", "symbols")
    matches = [
        match
        for result in engine.search(request).found
        if (match := _best_line(score, result.memory, cites)) is not None
    ]
    matches.sort(key=lambda match: -match.score)  # A stable sort: equal matches keep their rank.
    return matches[:limit]


def _query_words(kind: Kind, text: str) -> list[str]:
    if kind == "error":
        words = [word for line in error_lines(text) for word in constant_words(line)]
    elif kind == "path":
        words = _WORD.findall(posixpath.basename(text.rstrip("/")))
    elif kind == "symbols":
        words = symbols_in(text)
    else:
        words = [word for name in command_names(text) for word in name[:2]]
    return list(dict.fromkeys(words))[:_MAX_WORDS]


def _scorer(kind: Kind, text: str) -> Callable[[str], float]:
    """Return a function that scores how specifically a line mentions an act."""
    if kind == "path":
        return lambda line: path_score(text, line)
    if kind == "symbols":
        symbols = symbols_in(text)
        return lambda line: symbol_score(symbols, line)
    if kind == "command":
        names = command_names(text)
        words = frozenset(text.split())
        return lambda line: max((command_score(name, words, line) for name in names), default=0.0)
    errors = [constant_words(line) for line in error_lines(text)]
    output_words = frozenset(constant_words(text[-_MAX_OUTPUT:]))

    def score(line: str) -> float:
        scores = [error_score(words, line) for words in errors]
        return max([*scores, quoted_score(output_words, line)])

    return score


def _best_line(score: Callable[[str], float], memory: Memory, cites: bool) -> ActMatch | None:
    """Return the line of a memory with the highest score; None if no line has a positive score.

    With ``cites``, code cited in the header counts too, and a line that mentions it is returned.
    """
    lines = [memory.title]
    lines += [
        " ".join(line.split()).lstrip("-*# ") for line in memory.body.splitlines() if line.strip()
    ]
    scored = [(score(line), line) for line in (*lines, *_files(memory))]
    if cites and citations.KEY in memory.metadata:
        text = [line for line in lines if line != memory.title]
        for citation in citations.cited(memory.metadata):
            name = citation.symbol.rpartition(".")[2]
            naming = [line for line in lines if name and _contains(line, name)]
            named = f"{citation.path} `{citation.symbol}` `{name}`"
            scored.append((score(named), [*naming, *text, memory.title][0]))
    best, line = max(scored, key=lambda entry: entry[0])  # the first of equal scores
    return ActMatch(memory, line, best) if best > 0 else None


def _files(memory: Memory) -> list[str]:
    files = memory.metadata.get("files")
    return [*map(str, files)] if isinstance(files, list) else []


def path_score(path: str, line: str) -> float:
    """Score how specifically a line mentions a file: 1 for its path, less for name or folder."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    for count in range(min(len(parts), 6), 1, -1):
        if _contains(line, "/".join(parts[-count:])):
            return 1.0
    is_common = not parts or parts[-1].lower() in _COMMON_FILES
    if not is_common and "." in parts[-1] and _contains(line, parts[-1], is_whole=True):
        return _NAMED
    for count in range(len(parts) - 1, 1, -1):
        for start in range(len(parts) - count):
            if _contains(line, "/".join(parts[start : start + count])):
                return _FOLDER
    return 0.0


def symbol_score(symbols: Sequence[str], line: str) -> float:
    """Return whether the code in a line contains one of the symbols."""
    code = " ".join(_CODE.findall(line))
    return _NAMED if any(_contains(code, symbol) for symbol in symbols) else 0.0


def command_score(name: Sequence[str], words: Container[str], line: str) -> float:
    """Return how specifically a line mentions a command: 1 for its program and two arguments.

    ``words`` contains the words of the whole command. If the code in the line continues with an
    option or argument that is not among them, it is about another use of the program.
    """
    for count in range(min(len(name), 3), 0, -1):
        prefix = " ".join(name[:count])
        if not _contains(line, prefix):
            continue
        spans = [code for code in _CODE.findall(line) if _contains(code, prefix)]
        rest = [code.partition(prefix)[2].split() for code in spans]
        if spans and all(after and _is_other(after[0], words) for after in rest):
            return _OTHER_USE
        if count > 1:
            return 1.0 if count > 2 else _NAMED
        if any(char in prefix for char in "._-"):
            return _NAMED  # The name of a script such as deploy.sh is specific.
        has_subcommand = len(name) > 1 and name[1].replace("-", "").isalpha()
        return _OTHER_USE if has_subcommand else _PROGRAM
    return 0.0


def _is_other(word: str, words: Container[str]) -> bool:
    """Return whether a word after a command in code is missing from the command itself."""
    is_placeholder = word[:1] in "<[{$." or word.isupper()
    return not is_placeholder and word not in words


def error_score(words: Sequence[str], line: str) -> float:
    """Return the share of an error's constant words that a line contains, weighted by length."""
    if len(words) < _MIN_ERROR_WORDS:
        return 0.0
    present = {word.lower() for word in _WORD.findall(line)}
    weights = {word: min(len(word), 12) for word in words}
    shared = sum(weight for word, weight in weights.items() if word in present)
    return shared / sum(weights.values())


def quoted_score(output_words: Container[str], line: str) -> float:
    """Return whether the output of a command contains all words of an error quoted in a line."""
    for code, text in _QUOTED.findall(line):
        words = constant_words(code or text)
        is_distinctive = len(words) >= _MIN_ERROR_WORDS or any(map(_is_distinctive, words))
        if words and is_distinctive and all(word in output_words for word in words):
            return 1.0
    return 0.0


def _contains(text: str, name: str, is_whole: bool = False) -> bool:
    """Return whether a text contains a name that is not a part of a longer one.

    With ``is_whole``, no folder may precede it.
    """
    start = text.find(name)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(name) : start + len(name) + 2]
        continues = after[:1].isalnum() or after[:1] in ("_", "-")
        continues |= after[:1] == "." and after[1:].isalnum()
        precedes = before.isalnum() or before in ("_", "-", ".") or (is_whole and before == "/")
        if not ((before and precedes) or (after and continues)):
            return True
        start = text.find(name, start + 1)
    return False
