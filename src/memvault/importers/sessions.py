"""Convert agents' sessions to episodes, using rules instead of a model.

A reader collects a ``Session`` from its program's files. The ``episode`` contains the prompts, the
changed files, a summary of the tool uses, sentences that look like decisions, and the last answer.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from memvault import clock
from memvault.experience import acts, episodes
from memvault.importers import convert, json_source
from memvault.importers.chat_text import message
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import ImportedNote, note_path
from memvault.index.text.sentences import sentence_ends
from memvault.lazy_pattern import lazy_pattern
from memvault.model import IMPORTANCE
from memvault.named_tuple import NamedTuple
from memvault.secrets.detector import masked

_MAX_TEXT = 20_000
"""Maximum length of a prompt or answer in a ``Session``."""
_MAX_PROMPTS, _MAX_PROMPT = 12, 300
_MAX_COMMANDS, _MAX_COMMAND = 8, 120
_MAX_FILES = 40
_MAX_DECISIONS, _MIN_DECISION, _MAX_DECISION = 8, 15, 240
_MAX_ANSWER = 1_500
_MAX_FIXES, _MAX_FIX_STEPS = 10, 4
_FILE_KEYS = ("file_path", "filePath", "notebook_path", "absolute_path", "path")
_COMMAND_KEYS = ("command", "cmd", "script")
_EDITS = frozenset(
    "edit write multiedit notebookedit write_file replace apply_patch patch create_file "
    "str_replace_editor search_replace".split()
)
_READS = frozenset("read read_file read_many_files view".split())
_PATCHED = lazy_pattern(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,500})$", re.MULTILINE)
_ADDED_BY_PROGRAMS = lazy_pattern(
    r"<(system-reminder|hook_context|memory-data|environment_context|environment_details|"
    r"user_instructions|permissions instructions|collaboration_mode|skill|turn_aborted|"
    r"user_shell_command|subagent_notification|hook_prompt|session_context|"
    r"ide_selection|ide_opened_file|ide_diagnostics|new-diagnostics|task-notification|"
    r"teammate-message|local-command-stdout|local-command-stderr|local-command-caveat|"
    r"command-name|command-message|command-args|command-contents|bash-input|bash-stdout|"
    r"bash-stderr|user-prompt-submit-hook|session-start-hook|INSTRUCTIONS)\b[^<>]{0,200}>"
)
_PROGRAM_PROMPTS = (
    "<local-command",
    "Caveat: The messages below",
    "[Request interrupted",
    "# AGENTS.md instructions",
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem",
    "Stop hook feedback:",
    "This is the Gemini CLI. We are setting up the context",
)
_SLASH_COMMAND = lazy_pattern(r"/[\w:.-]+(?:\s|\Z)")
"""Matches a slash command; unlike a path, it contains no second slash."""
_ERRORS = ("API Error", "[Request interrupted", "Invalid API key")
_REFERENCED = "\n--- Content from referenced files ---"
_REQUEST = "## My request for Codex:"
_DECISION = lazy_pattern(
    r"\b(?:decided|we(?:'ll| will) (?:use|go|keep|stay)|let's (?:use|go|keep|stick)|"
    r"go(?:ing)? with|chose|choose|switch(?:ed|ing)? to|instead of|agreed|from now on|prefer|"
    r"stick with|root cause|because of this|the fix is|must (?:not|never|always))\b",
    re.IGNORECASE,
)


class ToolUse(NamedTuple):
    """A tool use: its name, its main argument, and the files it changed."""

    name: str
    argument: str
    files: tuple[str, ...] = ()


class Session:
    """A session as collected by a reader; times are in ISO 8601."""

    def __init__(self, program: str, session_id: str) -> None:
        self.program = program
        self.session_id = session_id
        self.folder = ""
        self.branch = ""
        self.title = ""
        self.started = self.ended = ""
        self.prompts: list[str] = []
        self.answers: list[str] = []
        self.tools: dict[str, ToolUse] = {}
        """Tool uses by call id, or by number if they have no call id."""
        self.failed: dict[str, str] = {}
        """Failed tool uses by call id, each with the error in its output."""
        self.is_interrupted = False
        """Whether an error follows the last answer."""

    def extend_to(self, time: Any) -> None:
        """Extend the session's time span to a time in ISO 8601 or in milliseconds since 1970."""
        iso = convert.time_or_text(time, 1e-3)
        if iso:
            self.started = min(self.started or iso, iso)
            self.ended = max(self.ended, iso)

    def add_prompt(self, text: str) -> None:
        """Add a prompt, unless the program wrote it."""
        text = _without_added_elements(text[: _MAX_TEXT * 10])
        text = _masked_and_cut(text.rpartition(_REQUEST)[2].partition(_REFERENCED)[0])
        if text and _is_user_text(text):
            self.prompts.append(text)

    def add_answer(self, text: str) -> None:
        """Add an answer, unless it is an error message from the program."""
        if is_error(text):
            self.is_interrupted = True
        elif text.strip():
            self.answers.append(_masked_and_cut(text))
            self.is_interrupted = False

    def join(self, other: Session) -> None:
        """Append another part of the session, which may repeat the beginning of this one."""
        asked = _after_common_prefix(self.prompts, other.prompts)
        answered = _after_common_prefix(self.answers, other.answers)
        self.prompts += asked
        self.answers += answered
        self.tools |= other.tools
        self.failed |= other.failed
        self.is_interrupted = other.is_interrupted if asked or answered else self.is_interrupted
        self.title = other.title or self.title
        self.folder = self.folder or other.folder
        self.branch = other.branch or self.branch
        for time in filter(None, (other.started, other.ended)):
            self.extend_to(time)

    def add_tool_use(self, call_id: str, name: str, arguments: Any) -> None:
        """Add a tool use; ``arguments`` is an object, JSON, or a patch."""
        self.tools[call_id or str(len(self.tools))] = tool_use(name, arguments)

    def mark_failed(self, call_id: str, output: Any = "") -> None:
        """Mark a tool use as failed; ``output`` is text or the content of a message."""
        if call_id in self.tools:
            self.failed[call_id] = masked(acts.error_line(text_of(output)))


def is_error(text: str) -> bool:
    """Return whether the text of an answer is an error message from the program."""
    return text.lstrip().startswith(_ERRORS)


def _after_common_prefix(first: list[str], other: list[str]) -> list[str]:
    """Return the entries of the second list after the common prefix of both."""
    count = 0
    while count < min(len(first), len(other)) and first[count] == other[count]:
        count += 1
    return other[count:]


def _is_user_text(text: str) -> bool:
    """Return whether a prompt was written by the user and is not a slash command."""
    is_added = text.startswith(_PROGRAM_PROMPTS) or _ADDED_BY_PROGRAMS.match(text) is not None
    return not is_added and _SLASH_COMMAND.match(text) is None


def _without_added_elements(text: str) -> str:
    """Return a prompt without the elements that programs add to it."""
    parts: list[str] = []
    done = 0
    unclosed: set[str] = set()
    for match in _ADDED_BY_PROGRAMS.finditer(text):
        if match.start() < done or match[1] in unclosed:
            continue
        closing = f"</{match[1]}>"
        end = text.find(closing, match.end())
        if end < 0:
            unclosed.add(match[1])
        else:
            parts.append(text[done : match.start()])
            done = end + len(closing)
    return "".join(parts) + text[done:]


def _masked_and_cut(text: str) -> str:
    """Mask secrets in text before cutting it, because a cut secret would not be detected."""
    return masked(text[: _MAX_TEXT * 10]).strip()[:_MAX_TEXT]


def tool_use(name: str, arguments: Any) -> ToolUse:
    """Return a tool use with the file, command or query in its arguments."""
    if isinstance(arguments, str):
        arguments = json_source.object_in(arguments) or {"input": arguments}
    values: Mapping[str, Any] = arguments if isinstance(arguments, dict) else {}
    text = " ".join(_as_text(value) for value in values.values())
    patched = tuple(match[1].strip() for match in _PATCHED.finditer(text)) if "***" in text else ()
    command = next((_as_text(values[key]) for key in _COMMAND_KEYS if values.get(key)), "")
    file = next((str(values[key]) for key in _FILE_KEYS if isinstance(values.get(key), str)), "")
    plain = name.rpartition("__")[2].lower()
    if patched:
        return ToolUse("edit", "", patched)
    if plain in _EDITS and file:
        return ToolUse("edit", "", (file,))
    if command:
        return ToolUse("command", _masked_and_cut(command))
    if plain in _READS:
        return ToolUse("read", file)
    others = ("pattern", "query", "url", "prompt", "description")
    return ToolUse(
        name, _masked_and_cut(next((str(values[key]) for key in others if values.get(key)), ""))
    )


def _as_text(value: Any) -> str:
    """Return the value of an argument as text; for a shell's argv, only the script."""
    if isinstance(value, list):
        argv = [str(word) for word in value]
        return argv[-1] if len(argv) == 3 and argv[1] in ("-lc", "-c") else " ".join(argv)
    return value if isinstance(value, str) else ""


def text_of(content: Any) -> str:
    """Return a message's text, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        kinds = (None, "text", "input_text", "output_text")
        parts = [
            part if isinstance(part, str) else str(part.get("text") or "")
            for part in content
            if isinstance(part, str) or (isinstance(part, dict) and part.get("type") in kinds)
        ]
        return "\n\n".join(part for part in parts if part)
    return ""


def first_entries(head: bytes, length: int) -> Iterator[dict[str, Any]]:
    """Yield the complete objects in the first ``length`` bytes of a JSON lines file."""
    lines = head.split(b"\n")
    if len(head) == length:  # the last line may be incomplete
        del lines[-1]
    yield from filter(None, map(json_source.object_in, lines))


def episode(session: Session, counts: ContentCounts) -> ImportedNote | None:
    """Convert a session to an episode; None if it has no prompts."""
    if not session.prompts:
        counts.omitted("session without a prompt")
        return None
    counts.converted("session")
    counts.converted("prompt", len(session.prompts))
    counts.converted("answer", len(session.answers))
    counts.converted("tool use", len(session.tools))
    changed = (file for use in session.tools.values() for file in use.files)
    files = list(dict.fromkeys(_relative(file, session.folder) for file in changed))
    context, reflection = _context(session), _reflection(session)
    outcomes = _outcomes(session, " ".join([*context, *reflection.split()]))
    lists = (context, _actions(session, files), outcomes)
    plain = [[message(line, is_plain=True) for line in lines] for lines in lists]
    body = episodes.body_of(plain[0], plain[1], plain[2], message(reflection))
    title = _title(session)
    day = clock.local(session.started) if session.started else ""
    header = {
        "title": title,
        "memory_type": episodes.TYPE,
        "tags": [session.program],
        "created": session.started,
        "modified": session.ended,
        "importance": IMPORTANCE,
        "agent": session.program,
        "project": session.folder,
        "files": files[:_MAX_FILES],
    }
    path = note_path(f"{day} {title}".strip())
    return ImportedNote(session.session_id, path, body, header, masked=True)


def _title(session: Session) -> str:
    title = session.title if _is_user_text(session.title) else ""
    titles = map(convert.title_of, ("" if is_error(title) else title, *session.prompts))
    return next(filter(None, titles), f"Session {session.session_id[:8]}")


def _context(session: Session) -> list[str]:
    where = [f"In {session.folder}"] if session.folder else []
    if where and session.branch:
        where = [f"{where[0]}, on branch {session.branch}"]
    prompts = list(dict.fromkeys(session.prompts))
    left_out = len(prompts) - _MAX_PROMPTS
    if left_out > 0:
        half = _MAX_PROMPTS // 2
        prompts = [*prompts[:half], f"({left_out} further prompts)", *prompts[-half:]]
    return [*where, *(f"Asked: {_short(text, _MAX_PROMPT)}" for text in prompts)]


def _actions(session: Session, files: list[str]) -> list[str]:
    uses = session.tools.values()
    edits = Counter(_relative(file, session.folder) for use in uses for file in use.files)
    actions = [f"Changed {file}{_times(edits[file])}" for file in files[:_MAX_FILES]]
    if len(files) > _MAX_FILES:
        actions.append(f"Changed {len(files) - _MAX_FILES} further files")
    commands = Counter(_short(use.argument, _MAX_COMMAND) for use in uses if use.name == "command")
    failed = {
        _short(session.tools[name].argument, _MAX_COMMAND)
        for name in session.failed
        if session.tools[name].name == "command"
    }
    for command, count in commands.most_common(_MAX_COMMANDS):
        ending = ", which failed at least once" if command in failed else ""
        actions.append(f"Ran {command}{_times(count)}{ending}")
    if len(commands) > _MAX_COMMANDS:
        actions.append(f"Ran {len(commands) - _MAX_COMMANDS} further commands")
    others = Counter(use.name for use in uses if use.name not in ("command", "edit"))
    actions += [f"Used {name}{_times(count)}" for name, count in others.most_common(_MAX_COMMANDS)]
    return actions


def _outcomes(session: Session, shown: str) -> list[str]:
    """Return the decisions that are not in ``shown``, and a line on how the session ended."""
    decided = [f"decision: {text}" for text in _decisions(session, shown)]
    decided += [f"fix: {text}" for text in _fixes(session)]
    calls, failed = len(session.tools), len(session.failed)
    if session.is_interrupted or not session.answers:
        how = "with a program error" if session.is_interrupted else "without an answer"
        return [*decided, f"{episodes.ERROR}: It ended {how}"]
    used = f"after {calls} tool {'call' if calls == 1 else 'calls'}, {failed} failed"
    return [*decided, f"answer: given {used if calls else 'without tools'}"]


def _fixes(session: Session) -> Iterator[str]:
    """Yield the steps between the failure of a command and its next success.

    Each text contains the command, its error, and the commands and changes that followed. If
    nothing else was done in between, it contains the command that succeeded.
    """
    uses = list(session.tools.items())
    seen: set[str] = set()
    for position, (call_id, use) in enumerate(uses):
        error = session.failed.get(call_id, "")
        if not error or use.name != "command":
            continue
        steps: list[str] = []
        for later_id, later in uses[position + 1 :]:
            same = later.name == "command" and acts.is_same_command(use.argument, later.argument)
            if same and later_id not in session.failed:
                steps = steps or ([_short(later.argument, _MAX_COMMAND)] if later != use else [])
                if steps and error not in seen:
                    seen.add(error)
                    command = _short(use.argument, _MAX_COMMAND)
                    done = "; ".join(dict.fromkeys(steps[-_MAX_FIX_STEPS:]))
                    yield f"{command} failed: {error}{acts.FIXED_BY}{done}"
                break
            if later_id not in session.failed and not same:
                steps += _steps(later, session.folder)
        if len(seen) >= _MAX_FIXES:
            return


def _steps(use: ToolUse, folder: str) -> list[str]:
    """Describe the steps of a tool use that may have fixed something."""
    if use.name == "command":
        return (
            [f"ran {_short(use.argument, _MAX_COMMAND)}"] if acts.may_change(use.argument) else []
        )
    return [f"changed {_relative(file, folder)}" for file in use.files]


def _decisions(session: Session, shown: str) -> list[str]:
    """Return the sentences of prompts and answers that look like decisions, in order."""
    sentences: dict[str, None] = {}
    for text in (*session.prompts, *session.answers):
        for line in filter(_DECISION.search, text.splitlines()):
            for sentence in _sentences(line):
                is_short = _MIN_DECISION < len(sentence) <= _MAX_DECISION
                if is_short and _DECISION.search(sentence) and sentence not in shown:
                    sentences.setdefault(sentence)
    return list(sentences)[:_MAX_DECISIONS]


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for end in (*sentence_ends(line), len(line)):
        sentence = " ".join(line[start:end].strip(" \t#>*-").split())
        if sentence and not sentence.startswith(("{", "[", '"')):  # skip JSON
            yield sentence
        start = end


def _reflection(session: Session) -> str:
    """Return the last answer, shortened if necessary."""
    text = session.answers[-1] if session.answers else ""
    return text if len(text) <= _MAX_ANSWER else f"{text[:_MAX_ANSWER].rpartition(' ')[0]} …"


def _relative(path: str, folder: str) -> str:
    inside = folder and path.startswith(f"{folder.rstrip('/')}/")
    return posixpath.relpath(path, folder) if inside else path


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _short(text: str, max_chars: int) -> str:
    line = " ".join(text.split())
    return (
        line
        if len(line) <= max_chars
        else f"{line[:max_chars].rpartition(' ')[0] or line[:max_chars]} …"
    )
