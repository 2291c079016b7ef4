"""The command ``hook``: what a program's agent is told at an event; silent whatever goes wrong.

A hook stands in the way of somebody's work, and some programs take an exit code
for a veto. So this ends with 0 within its time, and says something or nothing.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from memvault.cli.options import GlobalOptions
    from memvault.clients.client import Event
    from memvault.workspace import Workspace

_SESSION_START, _LIMIT = 5.0, 0.9
"""Seconds after which an event is given up: a session's start, and any other."""
_MOST_INPUT = 1 << 20
_PROMPT = 1_000
"""Characters of a prompt that are recalled with."""
_HITS = 5
_TOKENS = 400
_LINE = 200
_BLOCK = 1_500
"""Tokens of the block at a session's start."""
_WORKED = 20
"""Calls of tools in a session after which it is worth asking what was learned."""
_TRANSCRIPT = 8 << 20
"""Bytes at the end of a session's record that are looked at."""
_CALL = re.compile(r'"type": ?"(?:tool_use|function_call|custom_tool_call)"')
_WRITE_CALL = re.compile(
    r'"name": ?"[\w.-]*memory_(?:remember|compound)"'
    r"|memvault (?:--\S+ \S+ )*(?:remember|compound) "
)
_SUMMARY = ("claude-code", "opencode")
"""The programs that add to what is asked of the summary; others only show something."""
_ASK = (
    "memvault: was something decided, found out or agreed here that is worth knowing next time? "
    "Ask for it to be remembered."
)
_BEFORE_END = "Before you end:"
_ADDED = re.compile(r"<(hook_context|system-reminder|memory-data)>.*?</\1>", re.DOTALL)
"""What programs put into a prompt beside what was typed."""
_QUOTES = re.compile(r'["“”„«»]')
"""Marks around what a recall would look for as it stands, and a prompt does not mean so."""
_COMMAND = re.compile(r"/[\w:.-]*(?:\s|$)")
"""How a command of the program's own begins; a path has another slash."""
_TAKES = ("--for", "--vault", "--agent")


class HookInvocation(NamedTuple):
    """What stands on the command line."""

    event: Event
    program: str
    vault: str | None
    agent: str | None


def main(arguments: list[str]) -> int:
    """Answer an event on standard output; the code is 0 whatever becomes of it."""
    line = _line(arguments)
    answering = threading.Lock()
    threading.Thread(target=_exit_on_timeout, args=(line.event, answering), daemon=True).start()
    # Nothing that goes wrong here may stop what others do, and what is left over
    # is nobody's concern: neither open files nor other threads.
    try:
        said = _response(line, _given())
        with answering:
            _write(said)
    finally:
        os._exit(0)


def hook(options: GlobalOptions, event: str, program: str) -> None:
    """Tell a program's agent what it should know at an event.

    memvault setup writes this into the program's settings, which runs it with
    JSON on standard input. EVENT is session-start (what is known), prompt (the
    memories that fit it at least fairly), pre-compact, stop or session-end
    (what to remember). It never fails: whatever is wrong, it says nothing and
    ends with code 0, at session-start within 5 seconds, else within one.
    """
    words = [event, "--for", program or "text"]
    for name in ("vault", "agent"):
        value = getattr(options, name)
        words += [f"--{name}", value] if value else []
    main(words)


def _line(arguments: list[str]) -> HookInvocation:
    """Read the command line as far as it makes sense."""
    named: dict[str, str] = {}
    words = []
    rest = iter(arguments)
    for word in rest:
        name, sign, value = word.partition("=")
        if name in _TAKES:
            named[name] = value if sign else next(rest, "")
        elif not word.startswith("-"):
            words.append(word)
    event = cast("Event", words[0] if words else "")  # what is none is not answered
    agent = named.get("--agent") or os.environ.get("MEMVAULT_AGENT")
    return HookInvocation(event, named.get("--for", ""), named.get("--vault"), agent)


def _exit_on_timeout(event: str, answering: threading.Lock) -> None:
    """End the process when its time is up, but not within an answer that is read."""
    threading.Event().wait(_SESSION_START if event == "session-start" else _LIMIT)
    answering.acquire(timeout=0.1)
    os._exit(0)


def _write(said: str) -> None:
    data = said.encode("utf-8", "replace") + b"\n"
    while data:
        data = data[os.write(1, data) :]


def _given() -> Mapping[str, Any]:
    """Return what the program says of the event; nothing where it is no JSON."""
    data = bytearray()
    while len(data) <= _MOST_INPUT:
        piece = os.read(0, 1 << 16)
        if not piece:
            break
        data += piece
    found = json.loads(data or b"{}")
    return found if isinstance(found, dict) else {}


def _response(line: HookInvocation, given: Mapping[str, Any]) -> str:
    """Return the answer in the program's form, or nothing."""
    found = _EVENTS[line.event](line, given).strip()
    if not found or not line.program:
        return found
    from memvault.clients import setup

    return setup.client(line.program).answer(line.event, found)


def _session_start(line: HookInvocation, given: Mapping[str, Any]) -> str:
    """Return the block of what is known, and the reminder, which has to stand before the work."""
    from memvault.tools.core import agent_guide

    workspace = _workspace(line)
    folder = Path(str(given.get("cwd") or ".")).resolve()
    # What the project is called is all that is known of the task.
    task = "" if folder == workspace.root else folder.name
    block = _called(line, workspace, "context", {"task": task, "budget": _BLOCK})["context"]
    return f"{block}\n\n{agent_guide.reminder()}"


def _prompt(line: HookInvocation, given: Mapping[str, Any]) -> str:
    """Return the memories that fit a prompt at least fairly, a line each, within the budget."""
    from memvault.agents import prompt
    from memvault.index.embedding import static
    from memvault.secrets import detector

    asked = _QUOTES.sub(" ", _ADDED.sub("", str(given.get("prompt") or ""))).strip()
    if not asked or _COMMAND.match(asked):
        return ""
    query = {"query": asked[:_PROMPT], "limit": _HITS, "strict": True, "full": True}
    entries = []
    for memory in _called(line, _workspace(line), "memory_recall", query)["memories"]:
        if memory.get("supersededBy") or memory.get("expired") or memory.get("notYet"):
            continue
        title, snippet = memory["title"], " ".join(memory["snippet"].split())
        said = snippet.removeprefix(title).lstrip(" :#.-")[:_LINE]
        secrets = detector.secret_values(f"{title}\n{memory['content']}")
        text = detector.masked_part(f"{title} ({memory['memId']}): {said}", secrets)
        entries.append(prompt.PromptEntry(str(memory.get("modified", ""))[:10], text))
    section = prompt.PromptSection("RECALLED, memory_show reads one whole", entries)
    return prompt.build([section], _TOKENS, static.count_tokens).text


def _pre_compact(line: HookInvocation, _: Mapping[str, Any]) -> str:
    """Return the reminder for whoever writes the summary, or else for the person."""
    from memvault.tools.core import agent_guide

    _workspace(line)
    if line.program in _SUMMARY:
        return f"In the summary, list what is to be kept. {agent_guide.reminder()}"
    return _ASK


def _session_end(line: HookInvocation, _: Mapping[str, Any]) -> str:
    """Return the reminder for the person: no agent is there any more."""
    _workspace(line)
    return _ASK


def _stop(line: HookInvocation, given: Mapping[str, Any]) -> str:
    """Return the reminder, once in a session in which much was done and nothing was kept."""
    from memvault.tools.core import agent_guide

    if given.get("stop_hook_active") or not given.get("transcript_path"):
        return ""
    _workspace(line)
    with Path(str(given["transcript_path"])).expanduser().open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TRANSCRIPT))
        said = file.read(_TRANSCRIPT).decode("utf-8", "replace")
    worked = len(_CALL.findall(said)) >= _WORKED
    if not worked or _WRITE_CALL.search(said) or _BEFORE_END in said:
        return ""
    return f"{_BEFORE_END} {agent_guide.reminder()}"


def _workspace(line: HookInvocation) -> Workspace:
    from memvault.settings.locate import find_vault
    from memvault.workspace import Workspace

    return Workspace(find_vault(line.vault))


def _called(
    line: HookInvocation, workspace: Workspace, tool: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    from memvault.call import Caller
    from memvault.tools.core import invoke

    caller = Caller(line.agent or "main", may_run_programs=False)
    return invoke.call(workspace, tool, arguments, caller).result


_EVENTS: Mapping[Event, Callable[[HookInvocation, Mapping[str, Any]], str]] = {
    "session-start": _session_start,
    "prompt": _prompt,
    "pre-compact": _pre_compact,
    "stop": _stop,
    "session-end": _session_end,
}
EVENTS = tuple(_EVENTS)
"""What a hook is run for."""
