"""The ``hook`` command, which prints context for an agent at an event and never fails.

Agent programs wait for their hooks, and some treat a non-zero exit code as a veto. So the command
always exits with 0 within its time limit; on any error it prints nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from memvault.cli.daemon.client import HOOK_SECONDS
from memvault.cli.options import scan
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.call import Caller
    from memvault.integrations.integration import Event
    from memvault.workspace import Workspace

_SESSION_START, _LIMIT = 5.0, HOOK_SECONDS
"""Time limits in seconds for the start of a session and for every other event."""
_CODE_SECONDS = 0.3
"""Time limit in seconds for comparing the code that memories cite."""
_MAX_INPUT = 1 << 20
_MAX_QUERY = 1_000
"""Maximum number of characters of a prompt to use as the query."""
_MAX_HITS = 5
_PROMPT_BUDGET = 400
_SESSION_KEYS = ("session_id", "conversation_id", "sessionID")
"""The keys that programs use for a session's id."""
_MAX_LINE = 200
_BLOCK = 1_500
"""Token budget of the context block at the start of a session."""
_MIN_TOOL_CALLS = 20
"""Minimum number of tool calls in a session before the agent is reminded to save memories."""
_MAX_TRANSCRIPT = 8 << 20
"""Maximum number of bytes read from the end of a session transcript."""
_TOOL_CALL = lazy_pattern(r'"type": ?"(?:tool_use|function_call|custom_tool_call)"')
_WRITE_CALL = lazy_pattern(
    r'"name": ?"[\w.-]*memory_(?:remember|compound)"'
    r"|memvault (?:--\S+ \S+ )*(?:remember|compound) "
)
_SAVE_REMINDER = (
    "memvault: was something decided, found out or agreed here that is worth knowing next time? "
    "Ask for it to be remembered."
)
_BEFORE_END = "Before you end:"
_CLIENT_TEXT = lazy_pattern(r"<(hook_context|system-reminder|memory-data)>.*?</\1>", re.DOTALL)
"""Matches text that clients add to the typed prompt."""
_QUOTES = lazy_pattern(r'["“”„«»]')
"""Matches quotation marks, which would make recall require exact phrases."""
_SLASH_COMMAND = lazy_pattern(r"/[\w:.-]*(?:\s|$)")
"""Matches one of the client's slash commands, but not a path, which has a second slash."""
_OPTIONS_WITH_VALUE = ("--for", "--vault", "--agent")
_opened: list[Path] = []
"""The root of the vault that the current event uses, if any."""


class HookInvocation(NamedTuple):
    """The parsed command line of ``hook``; if ``captures`` is set, it also imports the session."""

    event: str
    program: str
    vault: str | None
    agent: str | None
    captures: bool = False


class HookResponse(NamedTuple):
    """The text for the agent; ``claim`` records a receipt and returns whether to write the text."""

    text: str
    claim: Callable[[], bool] = lambda: True


def main(arguments: list[str]) -> NoReturn:
    """Answer the event given on the command line."""
    answer(_parse_arguments(arguments))


def respond(arguments: list[str]) -> int:
    """Answer an event without exiting; return 0, even after an error."""
    line = _parse_arguments(arguments)
    with contextlib.suppress(Exception):
        response = _response(line, _read_event())
        _write(response.text if response.claim() else "")
    return 0


def answer(line: HookInvocation) -> NoReturn:
    """Write the response to an event to standard output; always exit with code 0."""
    answering = threading.Lock()
    threading.Thread(target=_exit_on_timeout, args=(line.event, answering), daemon=True).start()
    # An error here must not affect the client. Open files and other threads need no cleanup,
    # because the process exits immediately.
    try:
        response = _response(line, _read_event())
        with answering:
            _write(response.text if response.claim() else "")
    finally:
        os._exit(0)


def _parse_arguments(arguments: list[str]) -> HookInvocation:
    """Parse the command line leniently; unknown options are ignored."""
    options, positionals, _ = scan(arguments, _OPTIONS_WITH_VALUE)
    agent = options.get("--agent") or os.environ.get("MEMVAULT_AGENT")
    event = positionals[0] if positionals else ""
    captures = "--capture" in options
    return HookInvocation(event, options.get("--for", ""), options.get("--vault"), agent, captures)


def _exit_on_timeout(event: str, answering: threading.Lock) -> None:
    """Exit at the time limit, unless a response is being written."""
    seconds = _SESSION_START if event == "session-start" else _LIMIT
    threading.Event().wait(seconds)
    if answering.acquire(timeout=0.1):
        _record_failure(event, f"it took longer than {seconds:g} s")
    os._exit(0)


def _record_failure(event: str, reason: str) -> None:
    """Record why a hook printed nothing, for doctor; nothing happens before a vault is open."""
    from memvault import clock
    from memvault.files import atomic
    from memvault.vault.private_folder import HOOK_FAILURE, private_folder

    with contextlib.suppress(Exception):
        failure = json.dumps({"event": event, "time": clock.iso(), "reason": reason})
        private_folder(_opened[-1])
        atomic.write(_opened[-1] / HOOK_FAILURE, failure.encode(), durable=False, private=True)


def _write(response: str) -> None:
    data = response.encode("utf-8", "replace") + b"\n"
    while data:
        data = data[os.write(1, data) :]


def _read_event() -> Mapping[str, Any]:
    """Read the event data from standard input; empty if it is not a JSON object.

    Raises:
        ValueError: the input is not valid JSON.
    """
    data = bytearray()
    while len(data) <= _MAX_INPUT:
        piece = os.read(0, 1 << 16)
        if not piece:
            break
        data += piece
    value = json.loads(data or b"{}")
    return value if isinstance(value, dict) else {}


def _response(line: HookInvocation, hook_input: Mapping[str, Any]) -> HookResponse:
    """Return the response, whose text is empty or in the client's format."""
    if line.captures:
        with contextlib.suppress(Exception):
            _capture(line, hook_input)
    from memvault.errors import VaultNotFound, VaultUnreadable
    from memvault.integrations.programs import PROGRAMS

    event = cast("Event", line.event)  # An unknown event gets no response.
    program = PROGRAMS[line.program] if line.program else None
    try:
        answered = _EVENTS[event](line, hook_input)
    except (VaultNotFound, VaultUnreadable) as error:
        if event != "session-start" or not (line.vault or os.environ.get("MEMVAULT_VAULT")):
            raise
        notice = f"memvault cannot remember or recall anything here: {error.message}; {error.hint}"
        return HookResponse(program.notice_output("", notice) if program else notice)
    except Exception as error:
        _record_failure(event, getattr(error, "message", type(error).__name__))
        raise
    response = HookResponse(answered) if isinstance(answered, str) else answered
    text = response.text.strip()
    return response._replace(text=program.hook_output(event, text) if program and text else text)


def _capture(line: HookInvocation, hook_input: Mapping[str, Any]) -> None:
    """Start an import of the program's session in the background."""
    from memvault import process
    from memvault.settings.locate import find_vault

    record = Path(str(hook_input["transcript_path"])).expanduser()
    if record.is_file():
        root = find_vault(line.vault)
        source = [str(record), "--from", line.program, "--yes", "--quiet"]
        command = [sys.executable, "-P", "-m", "memvault", "import", *source, "--vault", str(root)]
        variables = {**process.environment(root), "MEMVAULT_RESIDENT": "off"}
        process.spawn_detached(command, variables)


def _session_start(line: HookInvocation, hook_input: Mapping[str, Any]) -> HookResponse:
    """Return the context block, and the reminder, which helps only before the work starts."""
    from memvault.git.project import project_topics
    from memvault.tools.active_memory import context
    from memvault.tools.core import agent_guide, invoke

    workspace = _workspace(line)
    folder = Path(str(hook_input.get("cwd") or ".")).resolve()
    topics = [] if folder == workspace.root else project_topics(folder)
    task = _QUOTES.sub(" ", "\n".join(topics))[:_MAX_QUERY]
    block = invoke.run(workspace, _caller(line), context, task=task, budget=_BLOCK)
    text = f"{block['context']}\n\n{agent_guide.REMINDER}".strip()
    memories = block.get("memories", ())
    return _with_receipt(workspace, line, hook_input, text, block["tokens"], _BLOCK, memories)


def _prompt(line: HookInvocation, hook_input: Mapping[str, Any]) -> str | HookResponse:
    """Return the memories that may answer a prompt, one per line, within the budget."""
    from memvault import clock
    from memvault.agents import prompt_block
    from memvault.index.embedding import tokenizer
    from memvault.recall import query_filters
    from memvault.recall.request_text import request_lines
    from memvault.tools.core import invoke
    from memvault.tools.recall import memory_recall

    prompt_text = _QUOTES.sub(
        " ", _CLIENT_TEXT.sub("", str(hook_input.get("prompt") or ""))
    ).strip()
    if not prompt_text or _SLASH_COMMAND.match(prompt_text):
        return ""
    workspace = _workspace(line)
    recalled = invoke.run(
        workspace,
        _caller(line),
        memory_recall,
        query=query_filters.as_words(request_lines(prompt_text)),
        limit=_MAX_HITS,
        specific=True,
        full=True,
    )
    if not recalled["memories"]:  # Avoids reading the receipts.
        return ""
    entries, memories = [], []
    may_give = _may_give(workspace, line, hook_input)
    for memory in filter(may_give, recalled["memories"]):
        if memory.get("supersededBy") or memory.get("expired") or memory.get("notYet"):
            continue
        memories.append(memory)
        title, snippet = memory["title"], " ".join(memory["snippet"].split())
        passage = snippet.removeprefix(title).lstrip(" :#.-")[:_MAX_LINE]
        notes = prompt_block.memory_notes(memory)
        text = f"{title} ({memory['memId']}{notes})" + (f": {passage}" if passage else "")
        entries.append(prompt_block.PromptEntry(clock.local(memory.get("modified", "")), text))
    section = prompt_block.PromptSection("RECALLED (read a whole memory with memory_show)", entries)
    block = prompt_block.build([section], _PROMPT_BUDGET, tokenizer.count_tokens)
    if not block.text:
        return ""
    memories = memories[: len(block.sections[0].entries)]
    size = (block.tokens, _PROMPT_BUDGET)
    return _with_receipt(workspace, line, hook_input, block.text, *size, memories)


def _tool_use(line: HookInvocation, hook_input: Mapping[str, Any]) -> str | HookResponse:
    """Return a line from a memory about a tool use that is about to start or has failed."""
    from memvault.cli import act_hook

    act = act_hook.act_of(line.event, hook_input)
    if act is None:
        return ""
    workspace = _workspace(line)
    may_give = _may_give(workspace, line, hook_input)
    recalled = act_hook.recall_line(workspace, _caller(line), act, may_give)
    if recalled is None:
        return ""
    from memvault.index.embedding import tokenizer

    size = (tokenizer.count_tokens(recalled.text), act_hook.BUDGET)
    memories, threshold = [recalled.memory], recalled.threshold
    return _with_receipt(workspace, line, hook_input, recalled.text, *size, memories, threshold)


def _may_give(
    workspace: Workspace, line: HookInvocation, hook_input: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that tells whether to give the agent a memory in a result.

    The session must not already have its current version, and a memory that was given often
    without being used must be a strong match.
    """
    if not workspace.settings.receipts:
        return lambda _: True
    from memvault.agents import receipts

    session = _session(hook_input)
    given = receipts.given(workspace.root, session, line.agent or "main") if session else {}
    may_repeat = receipts.may_give(workspace.root, workspace.settings)

    def may_give(memory: Mapping[str, Any]) -> bool:
        mem_id, etag = memory["memId"], memory["etag"]
        return given.get(mem_id) != etag and may_repeat(mem_id, etag, memory["probability"])

    return may_give


def _with_receipt(
    workspace: Workspace,
    line: HookInvocation,
    hook_input: Mapping[str, Any],
    text: str,
    tokens: int = 0,
    budget: int = _BLOCK,
    memories: Iterable[Mapping[str, Any]] = (),
    threshold: float | None = None,
) -> HookResponse:
    """Return a response whose receipt has its text and the memories in it."""
    from memvault.agents import receipts
    from memvault.recall.answer import RELEVANT

    receipt = receipts.Receipt(
        _session(hook_input),
        line.agent or "main",
        line.event,
        line.program,
        text.strip(),
        tokens,
        budget,
        RELEVANT if threshold is None else threshold,
        tuple(map(receipts.GivenMemory.of, memories)),
    )
    return HookResponse(text, partial(receipts.claim, workspace.root, workspace.settings, receipt))


def _session(hook_input: Mapping[str, Any]) -> str:
    """Return the session's id; empty if the program sent none."""
    ids = (hook_input.get(key) for key in _SESSION_KEYS)
    return next((value for value in ids if isinstance(value, str) and value), "")


def _pre_compact(line: HookInvocation, hook_input: Mapping[str, Any]) -> str | HookResponse:
    """Return the reminder for the agent that writes the summary, or else for the user."""
    from memvault.integrations.programs import PROGRAMS
    from memvault.tools.core import agent_guide

    workspace = _workspace(line)
    reminder = _SAVE_REMINDER
    if line.program in PROGRAMS and PROGRAMS[line.program].summary_reads_output:
        reminder = f"In the summary, list everything worth keeping. {agent_guide.REMINDER}"
    if not _session(hook_input):
        return reminder
    # An empty receipt marks that the agent no longer has the memories it was given.
    return _with_receipt(workspace, line, hook_input, "")._replace(text=reminder)


def _session_end(line: HookInvocation, _: Mapping[str, Any]) -> str:
    """Return the reminder for the user, because the agent has already stopped."""
    _workspace(line)
    return _SAVE_REMINDER


def _stop(line: HookInvocation, hook_input: Mapping[str, Any]) -> str:
    """Return the reminder, once per session, if many tools were called and nothing was saved."""
    from memvault.tools.core import agent_guide

    if hook_input.get("stop_hook_active") or not hook_input.get("transcript_path"):
        return ""
    _workspace(line)
    with Path(str(hook_input["transcript_path"])).expanduser().open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_TRANSCRIPT))
        transcript = file.read(_MAX_TRANSCRIPT).decode("utf-8", "replace")
    is_long = len(_TOOL_CALL.findall(transcript)) >= _MIN_TOOL_CALLS
    if not is_long or _WRITE_CALL.search(transcript) or _BEFORE_END in transcript:
        return ""
    return f"{_BEFORE_END} {agent_guide.REMINDER}"


def _workspace(line: HookInvocation) -> Workspace:
    from memvault.settings.locate import find_vault
    from memvault.workspace import open_workspace

    root = find_vault(line.vault)
    _opened[:] = [root]
    return open_workspace(root)


def _caller(line: HookInvocation) -> Caller:
    from memvault.call import Caller

    return Caller(
        line.agent or "main", may_run_programs=False, is_hook=True, code_seconds=_CODE_SECONDS
    )


_EVENTS: Mapping[Event, Callable[[HookInvocation, Mapping[str, Any]], str | HookResponse]] = {
    "session-start": _session_start,
    "prompt": _prompt,
    "before-tool": _tool_use,
    "after-tool": _tool_use,
    "pre-compact": _pre_compact,
    "stop": _stop,
    "session-end": _session_end,
}
EVENTS = tuple(_EVENTS)
"""Names of the hook events."""
