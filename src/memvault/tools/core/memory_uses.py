"""Detect calls that use memories that a hook or ``context`` gave the agent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from memvault.agents import receipts
from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.lazy_pattern import lazy_pattern
from memvault.tools.core.registry import Tool

_QUOTED_WORDS = 8
"""Number of consecutive words that make a quotation."""
_MAX_RECEIPTS = 20
"""Number of latest receipts whose texts are compared with a call's arguments."""
_MEM_ID = lazy_pattern(r"(?<![\w-])\w[\w-]{0,200}-[0-9a-z]{6}(?![\w-])")
_WORD = lazy_pattern(r"\w+")


def record(call: Call, tool: Tool, bound: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Record the memory that a call shows or changes, and those that its arguments refer to.

    Failures are ignored, because this is a side effect.
    """
    if call.caller.scope == "read":
        return
    mem_ids = {result["memId"]} if isinstance(result.get("memId"), str) else set()
    with contextlib.suppress(MemvaultError):
        if not tool.read_only:
            text = "\n".join(_texts(bound))
            mem_ids |= set(_MEM_ID.findall(text))
            mem_ids |= _quoted(call, text)
        if mem_ids:
            receipts.record_uses(call.root, mem_ids)


def _texts(bound: Mapping[str, Any]) -> Iterator[str]:
    for value in bound.values():
        yield from (part for part in _flat(value) if isinstance(part, str))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _quoted(call: Call, text: str) -> set[str]:
    """Return the memories in the latest receipts from which a text quotes several words."""
    words = _words(text)
    latest = next(receipts.latest_first(call.root, call.caller.agent), None)
    if latest is None or len(words) < _QUOTED_WORDS:
        return set()
    runs = {tuple(words[n : n + _QUOTED_WORDS]) for n in range(len(words) - _QUOTED_WORDS + 1)}
    quoted = set()
    for receipt in receipts.of_session(call.root, latest.session)[-_MAX_RECEIPTS:]:
        lines = receipt.text.splitlines()
        for memory in receipt.memories:
            for line in lines:
                given = _words(line) if memory.mem_id in line else []
                if any(
                    tuple(given[n : n + _QUOTED_WORDS]) in runs
                    for n in range(len(given) - _QUOTED_WORDS + 1)
                ):
                    quoted.add(memory.mem_id)
    return quoted


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
