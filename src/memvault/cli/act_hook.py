"""Recall a memory about an agent's tool use: an edit, a command, or a command's failure.

A memory that mentions the file, the command or the error is preferred to one that is only similar.
The thresholds are measured by bench/acts.py.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memvault.agents import prompt_block
from memvault.experience import acts
from memvault.importers import sessions
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.call import Caller
    from memvault.workspace import Workspace

BUDGET = 60
"""Maximum number of tokens in the line."""
_EDIT_THRESHOLD, _ERROR_THRESHOLD = 0.4, 0.5
"""Minimum match probabilities of a memory that does not mention the file or the error."""
_MAX_CHANGE = 4_000
_MAX_QUERY = 1_000
_CHANGE_KEYS = ("new_string", "content", "newString", "new_str", "command", "input", "patch")
_NO_WORDS = lazy_pattern(r"[^\w.'-]+|_")


class Act(NamedTuple):
    """An edit with its path and changed text, a command, or the output of a failed command."""

    path: str | None = None
    change: str | None = None
    command: str | None = None
    error: str | None = None


def act_of(event: str, hook_input: Mapping[str, Any]) -> Act | None:
    """Return the act in a program's event; None if no memory could be about it."""
    use = sessions.tool_use(str(hook_input.get("tool_name")), hook_input.get("tool_input"))
    if use.files:
        return Act(path=use.files[0], change=_changed_text(hook_input))
    if use.name != "command":
        return None
    if event == "before-tool":
        return Act(command=use.argument) if acts.command_names(use.argument) else None
    error = hook_input.get("error")
    output = acts.output_text(error or hook_input.get("tool_response") or _tool_output(hook_input))
    has_failed = bool(error) or acts.has_failed(output)
    return Act(error=output) if has_failed else None


def _tool_output(hook_input: Mapping[str, Any]) -> object:
    """Return a tool's output in an event from Cursor, which passes a JSON object."""
    output = hook_input.get("tool_output")
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        return json.loads(output) if isinstance(output, str) else output
    return output


class ActLine(NamedTuple):
    """A line of a memory about an act, the memory, and the minimum probability or score."""

    text: str
    memory: Mapping[str, Any]
    threshold: float


def _changed_text(hook_input: Mapping[str, Any]) -> str:
    values = hook_input.get("tool_input")
    if isinstance(values, str):
        return values[:_MAX_CHANGE]
    texts = (values.get(key) for key in _CHANGE_KEYS) if isinstance(values, dict) else ()
    return "\n".join(text for text in texts if isinstance(text, str))[:_MAX_CHANGE]


def recall_line(
    workspace: Workspace, caller: Caller, act: Act, may_give: Callable[[Mapping[str, Any]], bool]
) -> ActLine | None:
    """Return one line of the memory most likely to be about an act, or None.

    Only memories for which ``may_give`` returns True are used.
    """
    from memvault.tools.core import invoke
    from memvault.tools.experience import recall_memory

    found = invoke.run(workspace, caller, recall_memory, **act._asdict())
    named: list[dict[str, Any]] = [
        {**memory, "probability": memory["score"]}
        for memory in found.get("memories", ())
        if memory["score"] >= acts.SURE
    ]
    if named:
        best = max(filter(may_give, named), key=lambda memory: memory["score"], default=None)
        return _line(best, best["line"], acts.SURE) if best is not None else None
    if act.path is not None:
        change = f"{act.path}\n{act.change}"
        return _similar(workspace, caller, change, _EDIT_THRESHOLD, may_give)
    if act.error is not None:
        errors = "\n".join(acts.error_lines(act.error)[:2])
        return _similar(workspace, caller, errors, _ERROR_THRESHOLD, may_give)
    return None


def _similar(
    workspace: Workspace,
    caller: Caller,
    text: str,
    threshold: float,
    may_give: Callable[[Mapping[str, Any]], bool],
) -> ActLine | None:
    """Return a line of the memory that is most similar to an act, if it is likely to match."""
    from memvault.recall import query_filters
    from memvault.tools.core import invoke
    from memvault.tools.recall import memory_recall

    query = query_filters.as_words(_NO_WORDS.sub(" ", text)[:_MAX_QUERY])
    if not query.strip():
        return None
    recalled = invoke.run(
        workspace,
        caller,
        memory_recall,
        query=query,
        limit=1,
        specific=True,
        threshold=threshold,
        full=True,
    )
    for memory in recalled["memories"]:
        if memory.get("supersededBy") or memory.get("expired") or memory.get("notYet"):
            continue
        if may_give(memory):
            return _line(memory, memory["snippet"], threshold)
    return None


def _line(memory: Mapping[str, Any], text: str, threshold: float) -> ActLine:
    from memvault.index.embedding import tokenizer

    notes = prompt_block.memory_notes(memory)
    rest = text.removeprefix(memory["title"]).lstrip(" :#.-")
    name = f"{memory['title']} ({memory['memId']}{notes}): "
    line = prompt_block.clean_line(name + rest)
    budget = BUDGET - tokenizer.count_tokens(prompt_block.fenced(""))
    end = tokenizer.prefix_within(line, budget)
    _, separator, fix = rest.partition(acts.FIXED_BY)
    if separator and end < len(line):  # The agent has just seen the error.
        line = prompt_block.clean_line(f"{name}{separator.strip(' -')} {fix}")
        end = tokenizer.prefix_within(line, budget)
    return ActLine(prompt_block.fenced(line[:end]), memory, threshold)
